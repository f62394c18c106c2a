import type { Schemas } from '../api/client';
import { formatScalar, getAt, setAt } from '../components/schemaform/schema';
import { findManifestFault, formatYaml, isRecord, isSame, parseObject, updateYaml, type Path } from '../components/yamltext';

/** Draft is what the form of an extension contains. */
export interface Draft {
  package: string;
  name: string;
  namespace: string;
  createNamespace: boolean;
  catalogs: readonly string[];
  channels: readonly string[];
  version: string;
  isCRDUpgradeSafe: boolean;
  /** account is empty until the person chooses one. completeDraft fills it in. */
  account: '' | 'generated' | 'existing' | 'none';
  /** serviceAccount is the existing service account, or the name of the generated one. Empty means the default name. */
  serviceAccount: string;
  /** config is the configuration of the bundle, as YAML. */
  config: string;
  /** object is the ClusterExtension as YAML, as it was edited last. It keeps the fields that the form does not show. Empty means that only the form was used. */
  object: string;
  /** isYaml reports whether the object is edited as YAML. Then the other fields follow it. */
  isYaml: boolean;
}

/** newDraft returns the form for an address. */
export function newDraft(parameters: URLSearchParams): Draft {
  const name = parameters.get('package') ?? '';
  return {
    package: name, name, namespace: name, createNamespace: true, catalogs: parameters.getAll('catalog'), channels: parameters.getAll('channel').filter((channel) => channel !== ''),
    version: parameters.get('version') ?? '', isCRDUpgradeSafe: true, account: '', serviceAccount: '', config: '', object: '', isYaml: false,
  };
}

/** defaultAccount returns the name of the service account that is generated for an extension. */
export function defaultAccount(extension: string): string {
  return `${extension}-installer`;
}

/** completeDraft fills in the service account where the person has chosen none: the one with the default name if the namespace has it, and else a generated one. */
export function completeDraft(draft: Draft, accounts: readonly string[]): Draft {
  if (draft.account !== '') return draft;
  const name = defaultAccount(draft.name);
  return accounts.includes(name) ? { ...draft, account: 'existing', serviceAccount: name } : { ...draft, account: 'generated' };
}

/** toRequest returns the request for a form, or what is missing in it. Empty fields are left out. */
export function toRequest(draft: Draft): Schemas['ExtensionRequest'] | string {
  const fault = draft.isYaml ? findManifestFault(draft.object, apiVersion, kind) : '';
  if (fault !== '') return fault;
  const object = parseObject(draft.object).value;
  if (draft.package === '') return 'The package is missing (spec.source.catalog.packageName).';
  if (draft.name === '' || draft.namespace === '') return 'A name and a namespace are required.';
  if (draft.account === 'existing' && draft.serviceAccount === '') return 'Name the service account.';
  const { value: config, error } = parseObject(draft.config);
  if (error !== undefined) return `The configuration is not valid. ${error}`;
  return {
    package: draft.package, name: draft.name, namespace: draft.namespace, createNamespace: draft.createNamespace,
    ...toBundleChoice(draft),
    ...(!draft.isCRDUpgradeSafe && { crdUpgradeSafety: 'None' as const }),
    ...(draft.account === 'generated' && { generateAccount: true }),
    ...(draft.account !== 'none' && draft.serviceAccount !== '' && { serviceAccount: draft.serviceAccount }),
    ...(config !== undefined && { config }),
    ...(object !== undefined && { object: draft.isYaml ? object : toObject(draft) }),
  };
}

/** toBundleChoice returns the fields of a request that select a bundle. */
function toBundleChoice(draft: Draft) {
  return {
    ...(draft.catalogs.length > 0 && { catalogs: [...draft.catalogs] }),
    ...(draft.channels.length > 0 && { channels: [...draft.channels] }),
    ...(draft.version.trim() !== '' && { version: draft.version.trim() }),
  };
}

/** toConfigRequest returns the question which configuration the chosen bundle accepts, without a configuration to check. */
export function toConfigRequest(draft: Draft): Schemas['ExtensionConfigRequest'] {
  return { package: draft.package, ...toBundleChoice(draft) };
}

/** versionsOf returns the versions that the chosen catalogs and channels offer, in the order of the console: the newest first. */
export function versionsOf(offers: Schemas['OfferedPackages'], { catalogs, channels }: Pick<Draft, 'catalogs' | 'channels'>): string[] {
  const offered = offers.catalogs
    .filter((offer) => catalogs.length === 0 || catalogs.includes(offer.catalog))
    .flatMap((offer) => offer.channels.filter((c) => channels.length === 0 || channels.includes(c.name)))
    .flatMap((c) => c.versions);
  return offers.versions.filter((version) => offered.includes(version));
}

const apiVersion = 'olm.operatorframework.io/v1';
const kind = 'ClusterExtension';
const catalogLabel = 'olm.operatorframework.io/metadata.name';
const selectorPath = ['spec', 'source', 'catalog', 'selector'];
const enforcementPath = ['spec', 'install', 'preflight', 'crdUpgradeSafety', 'enforcement'];

/** toYaml returns the ClusterExtension of a form as YAML. Comments and fields that the form does not show are those of the last YAML. */
export function toYaml(draft: Draft): string {
  return updateYaml(draft.object, toObject(draft));
}

/** readYaml returns the fields of a form for a changed YAML. They stay as they are while it has errors. */
export function readYaml(draft: Draft, text: string): Partial<Draft> {
  const { value } = parseObject(text);
  if (value === undefined) return { object: text };

  const read = (...path: Path) => formatScalar(getAt(value, path));
  const channels = getAt(value, ['spec', 'source', 'catalog', 'channels']);
  const inline = getAt(value, ['spec', 'config', 'inline']);
  return {
    object: text, name: read('metadata', 'name'), namespace: read('spec', 'namespace'), package: read('spec', 'source', 'catalog', 'packageName'),
    catalogs: readCatalogs(getAt(value, selectorPath)) ?? [], channels: Array.isArray(channels) ? (channels as unknown[]).map(formatScalar) : [],
    version: read('spec', 'source', 'catalog', 'version'), isCRDUpgradeSafe: read(...enforcementPath) !== 'None',
    config: isSame(parseObject(draft.config).value, inline) ? draft.config : isRecord(inline) ? formatYaml(inline) : '',
    ...readAccount(draft, read('spec', 'serviceAccount', 'name'), read('metadata', 'name')),
  };
}

/** readAccount returns how the service account of a YAML is chosen. It stays a generated one under another name. */
function readAccount(draft: Draft, account: string, extension: string): Pick<Draft, 'account' | 'serviceAccount'> {
  if (account === '') return { account: 'none', serviceAccount: '' };
  if (draft.account !== 'generated') return { account: 'existing', serviceAccount: account };
  return { account: 'generated', serviceAccount: account === defaultAccount(extension) ? '' : account };
}

/** toObject returns the ClusterExtension of a form. */
function toObject(draft: Draft): Record<string, unknown> {
  const base = parseObject(draft.object).value ?? {};
  const config = parseObject(draft.config).value;
  const selector = getAt(base, selectorPath);
  const enforcement = getAt(base, enforcementPath);
  const fields: readonly (readonly [readonly string[], unknown])[] = [
    [['apiVersion'], apiVersion],
    [['kind'], kind],
    [['metadata', 'name'], draft.name],
    [['spec', 'namespace'], draft.namespace],
    [['spec', 'serviceAccount', 'name'], draft.account === 'none' ? undefined : draft.serviceAccount === '' ? defaultAccount(draft.name) : draft.serviceAccount],
    [['spec', 'source', 'sourceType'], 'Catalog'],
    [['spec', 'source', 'catalog', 'packageName'], draft.package],
    [['spec', 'source', 'catalog', 'version'], draft.version.trim() === '' ? undefined : draft.version.trim()],
    [['spec', 'source', 'catalog', 'channels'], draft.channels.length === 0 ? undefined : [...draft.channels]],
    [selectorPath, draft.catalogs.length === 0 && hasOtherSelector(draft) ? selector : toSelector(draft.catalogs)],
    [enforcementPath, draft.isCRDUpgradeSafe ? (enforcement === 'None' ? undefined : enforcement) : 'None'],
    [['spec', 'config'], config === undefined ? undefined : { configType: 'Inline', inline: config }],
  ];
  return fields.reduce<Record<string, unknown>>((object, [path, value]) => setAt(object, path, value), base);
}

/** hasOtherSelector reports whether the YAML selects catalogs by something else than their names, which the form does not show. */
export function hasOtherSelector(draft: Draft): boolean {
  return readCatalogs(getAt(parseObject(draft.object).value, selectorPath)) === undefined;
}

/** toSelector returns the label selector for catalogs by their names. */
function toSelector(catalogs: readonly string[]): Record<string, unknown> | undefined {
  if (catalogs.length === 0) return undefined;
  if (catalogs.length === 1) return { matchLabels: { [catalogLabel]: catalogs[0] } };
  return { matchExpressions: [{ key: catalogLabel, operator: 'In', values: [...catalogs] }] };
}

/** readCatalogs returns the names of the catalogs that toSelector would write as this selector, or undefined for another selector. */
function readCatalogs(selector: unknown): string[] | undefined {
  if (selector === undefined) return [];
  const values = getAt(selector, ['matchExpressions', 0, 'values']);
  const found = Array.isArray(values) ? (values as unknown[]) : [getAt(selector, ['matchLabels', catalogLabel])];
  const names = found.filter((name) => typeof name === 'string');
  return isSame(selector, toSelector(names)) ? names : undefined;
}
