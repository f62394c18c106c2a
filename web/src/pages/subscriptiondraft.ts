import type { Schemas } from '../api/client';
import { formatScalar, getAt, setAt, withField } from '../components/schemaform/schema';
import { findManifestFault, formatYaml, isRecord, isSame, parseObject, updateYaml, type Path } from '../components/yamltext';

/** Mode is what an operator watches: all namespaces, its own, or others. */
export type Mode = 'all' | 'own' | 'others';

/** Draft is what the form of a Subscription contains. */
export interface Draft {
  package: string;
  catalog: string;
  /** name is that of the Subscription. Only the YAML shows it. Empty means the name of the package. */
  name: string;
  /** namespace is that of the operator. It is empty until the package is known, or a person chooses one. */
  namespace: string;
  createNamespace: boolean;
  /** isMonitored is whether the monitoring of the cluster reads the metrics of the created namespace. Without a value, the offer decides. */
  isMonitored?: boolean;
  channel: string;
  /** csv is the version to start with. Empty means the newest of the channel. */
  csv: string;
  /** mode is the install mode of a new OperatorGroup. Empty means the widest one that the operator supports. */
  mode: '' | Mode;
  watch: string;
  isManual: boolean;
  /** config is the configuration of the operator's pods (spec.config), as YAML. */
  config: string;
  /** object is the Subscription as YAML, as it was edited last. It keeps the fields that the form does not show. Empty means that only the form was used. */
  object: string;
  /** isYaml reports whether the object is edited as YAML. Then the other fields follow it. */
  isYaml: boolean;
}

/** tokens are the environment variables for short-lived credentials, by cloud. */
export const tokens: Readonly<Record<string, readonly (readonly [variable: string, label: string])[]>> = {
  aws: [['ROLEARN', 'Role ARN']],
  azure: [['CLIENTID', 'Client ID'], ['TENANTID', 'Tenant ID'], ['SUBSCRIPTIONID', 'Subscription ID'], ['RESOURCEGROUP', 'Resource group']],
  gcp: [['PROJECT_NUMBER', 'Project number'], ['POOL_ID', 'Pool ID'], ['PROVIDER_ID', 'Provider ID'], ['SERVICE_ACCOUNT_EMAIL', 'Service account email']],
};

/** newDraft returns the form for an address. */
export function newDraft(parameters: URLSearchParams): Draft {
  const read = (name: string) => parameters.get(name) ?? '';
  return {
    package: read('package'), catalog: read('catalog'), name: '', namespace: read('namespace'), createNamespace: true, channel: read('channel'), csv: read('version'),
    mode: '', watch: '', isManual: false, config: '', object: '', isYaml: false,
  };
}

/** completeDraft fills in what the author of the operator recommends, where the person has chosen nothing. */
export function completeDraft(draft: Draft, offer: Schemas['Offer']): Draft {
  const channel = draft.channel !== '' ? draft.channel : (offer.channels.find((c) => c.default === true)?.name ?? offer.channels[0]?.name ?? '');
  const versions = offer.channels.find((c) => c.name === channel)?.versions ?? [];
  // The address may name the version instead of the ClusterServiceVersion. What a YAML names stays as it is written.
  const version = versions.find((v) => v.name === draft.csv || v.version === draft.csv);
  const csv = draft.object !== '' ? draft.csv : version === undefined || version.head === true ? '' : version.name;
  const mode = draft.mode !== '' ? draft.mode : modes.find((m) => supportsMode(offer, channel, m));
  return { ...draft, channel, csv, mode: mode ?? '' };
}

const modes = ['all', 'own', 'others'] as const;

const installModes: Readonly<Record<Mode, readonly string[]>> = { all: ['AllNamespaces'], own: ['OwnNamespace'], others: ['SingleNamespace', 'MultiNamespace'] };

/** supportsMode reports whether the newest version of a channel supports a mode. Catalogs that do not tell it are believed to offer each. */
export function supportsMode(offer: Schemas['Offer'], channel: string, mode: Mode): boolean {
  const supported: readonly string[] = offer.details.find((d) => d.channel === channel)?.modes ?? [];
  return supported.length === 0 || installModes[mode].some((m) => supported.includes(m));
}

/** recommendedNamespace returns the namespace that the author of the operator recommends, if there is one. */
export function recommendedNamespace(offer: Schemas['Offer'], channel: string): string | undefined {
  return offer.details.find((d) => d.channel === channel)?.suggestedNamespace;
}

/** isMonitored reports whether cluster monitoring is enabled. It returns undefined if the offer does not have it. */
export function isMonitored(draft: Draft, { details }: Schemas['Offer']): boolean | undefined {
  const { clusterMonitoring, suggestedNamespace } = details.find((d) => d.channel === draft.channel) ?? {};
  // The offer may still be that of another namespace.
  if (clusterMonitoring === undefined || draft.namespace !== suggestedNamespace || !draft.createNamespace) return undefined;
  return draft.isMonitored ?? clusterMonitoring.default;
}

/** mustApprove returns why approval Automatic cannot be chosen, as the console says it, or an empty text. */
export function mustApprove({ channel, csv }: Draft, { channels }: Schemas['Offer']): string {
  const version = channels.find((c) => c.name === channel)?.versions.find((v) => v.name === csv);
  return version?.needsManual ?? '';
}

/** toRequest returns the request for a form, or what is missing in it. */
export function toRequest(draft: Draft, offer: Schemas['Offer']): Schemas['SubscriptionRequest'] | string {
  const fault = draft.isYaml ? findYamlFault(draft, offer) : '';
  if (fault !== '') return fault;
  if (draft.namespace === '') return 'A namespace is required.';
  const watch = draft.watch.split(/[\s,]+/).filter((name) => name !== '');
  if (draft.mode === 'others' && watch.length === 0) return 'Name the namespaces that the operator watches.';
  const { value: config, error } = parseObject(draft.config);
  if (error !== undefined) return `The configuration is not valid. ${error}`;
  const object = parseObject(draft.object).value;
  return {
    package: draft.package, channel: draft.channel, createNamespace: draft.createNamespace, catalog: offer.catalog,
    ...(draft.name !== '' && { name: draft.name }),
    ...(isMonitored(draft, offer) === true && { clusterMonitoring: true }),
    ...(draft.csv !== '' && { startingCSV: draft.csv }),
    ...(isApprovedManually(draft, offer) && { isManual: true }),
    ...(offer.operatorGroup === undefined && draft.mode === 'own' && { watchNamespaces: [draft.namespace] }),
    ...(offer.operatorGroup === undefined && draft.mode === 'others' && { watchNamespaces: watch }),
    ...(config !== undefined && { config }),
    ...(object !== undefined && { object: draft.isYaml ? object : toObject(draft, offer) }),
  };
}

function isApprovedManually(draft: Draft, offer: Schemas['Offer']): boolean {
  return draft.isManual || mustApprove(draft, offer) !== '';
}

/** findYamlFault returns why the YAML cannot be installed, or an empty text. */
function findYamlFault(draft: Draft, offer: Schemas['Offer']): string {
  const fault = findManifestFault(draft.object, apiVersion, kind);
  if (fault !== '') return fault;
  const spec = parseObject(draft.object).value?.['spec'];
  if (!getAt(spec, ['name'])) return 'The package is missing (spec.name).';
  if (!getAt(spec, ['source']) || !getAt(spec, ['sourceNamespace'])) return 'The catalog is missing (spec.source and spec.sourceNamespace).';
  const reason = mustApprove(draft, offer);
  return reason === '' || draft.isManual ? '' : `${reason} Set spec.installPlanApproval to Manual.`;
}

/** readVariable returns the value of an environment variable in a configuration. */
export function readVariable(config: string, name: string): string {
  return formatScalar(listVariables(config).find((variable) => getAt(variable, ['name']) === name)?.['value']);
}

/** writeVariable returns a configuration with another value of an environment variable. An empty value removes the variable. */
export function writeVariable(config: string, name: string, text: string): string {
  const value = text.trim();
  const before = listVariables(config);
  const isNamed = (variable: Record<string, unknown>) => variable['name'] === name;
  const env = before.some(isNamed)
    ? before.flatMap((variable) => (!isNamed(variable) ? [variable] : value === '' ? [] : [withField(variable, 'value', value)]))
    : value === '' ? before : [...before, { name, value }];
  const object = setAt(parseObject(config).value, ['env'], env.length === 0 ? undefined : env);
  return Object.keys(object).length === 0 ? '' : updateYaml(config, object);
}

function listVariables(config: string): Record<string, unknown>[] {
  const env = getAt(parseObject(config).value, ['env']);
  return Array.isArray(env) ? env.filter(isRecord) : [];
}

const apiVersion = 'operators.coreos.com/v1alpha1';
const kind = 'Subscription';

/** showYaml returns the fields of a form that is shown as YAML from now on. They no longer depend on what the catalogs recommend. */
export function showYaml(draft: Draft, offer: Schemas['Offer']): Partial<Draft> {
  const { channel, csv } = draft;
  return { isYaml: true, object: updateYaml(draft.object, toObject(draft, offer)), channel, csv, catalog: offer.catalog, isManual: isApprovedManually(draft, offer) };
}

/** readYaml returns the fields of a form for a changed YAML. They stay as they are while it has errors. A package and a catalog that it lacks stay, too. */
export function readYaml(draft: Draft, text: string): Partial<Draft> {
  const { value } = parseObject(text);
  if (value === undefined) return { object: text };

  const read = (...path: Path) => formatScalar(getAt(value, path));
  const config = getAt(value, ['spec', 'config']);
  const [name, source, sourceNamespace] = [read('spec', 'name'), read('spec', 'source'), read('spec', 'sourceNamespace')];
  return {
    object: text, name: read('metadata', 'name'), namespace: read('metadata', 'namespace'),
    package: name === '' ? draft.package : name, catalog: source === '' || sourceNamespace === '' ? draft.catalog : `${sourceNamespace}/${source}`,
    channel: read('spec', 'channel'), csv: read('spec', 'startingCSV'), isManual: read('spec', 'installPlanApproval') === 'Manual',
    config: isSame(parseObject(draft.config).value, config) ? draft.config : isRecord(config) ? formatYaml(config) : '',
  };
}

/** toObject returns the Subscription of a form. Fields that the form does not show are those of the last YAML. */
function toObject(draft: Draft, offer: Schemas['Offer']): Record<string, unknown> {
  const [sourceNamespace, source] = offer.catalog.split('/');
  const fields: readonly (readonly [readonly string[], unknown])[] = [
    [['apiVersion'], apiVersion],
    [['kind'], kind],
    [['metadata', 'name'], draft.name === '' ? draft.package : draft.name],
    [['metadata', 'namespace'], draft.namespace],
    [['spec', 'name'], draft.package],
    [['spec', 'source'], source],
    [['spec', 'sourceNamespace'], sourceNamespace],
    [['spec', 'channel'], draft.channel],
    [['spec', 'startingCSV'], draft.csv === '' ? undefined : draft.csv],
    [['spec', 'installPlanApproval'], isApprovedManually(draft, offer) ? 'Manual' : 'Automatic'],
    [['spec', 'config'], parseObject(draft.config).value],
  ];
  return fields.reduce<Record<string, unknown>>((object, [path, value]) => setAt(object, path, value), parseObject(draft.object).value ?? {});
}
