import type { Schemas } from '../api/client';
import { parseObject } from '../components/yamltext';

/** Mode is what an operator watches: all namespaces, its own, or others. */
export type Mode = 'all' | 'own' | 'others';

/** Draft is what the form of a Subscription contains. */
export interface Draft {
  package: string;
  catalog: string;
  /** namespace is that of the operator. It is empty until the package is known, or a person chooses one. */
  namespace: string;
  createNamespace: boolean;
  channel: string;
  /** csv is the version to start with. Empty means the newest of the channel. */
  csv: string;
  /** mode is the install mode of a new OperatorGroup. Empty means the widest one that the operator supports. */
  mode: '' | Mode;
  watch: string;
  isManual: boolean;
  env: Readonly<Record<string, string>>;
  /** config is the configuration of the operator's pods (spec.config), as YAML. */
  config: string;
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
    package: read('package'), catalog: read('catalog'), namespace: read('namespace'), createNamespace: true, channel: read('channel'), csv: read('version'),
    mode: '', watch: '', isManual: false, env: {}, config: '',
  };
}

/** completeDraft fills in what the author of the operator recommends, where the person has chosen nothing. */
export function completeDraft(draft: Draft, offer: Schemas['Offer']): Draft {
  const channel = draft.channel !== '' ? draft.channel : (offer.channels.find((c) => c.default === true)?.name ?? offer.channels[0]?.name ?? '');
  const versions = offer.channels.find((c) => c.name === channel)?.versions ?? [];
  // The address may name the version instead of the ClusterServiceVersion.
  const version = versions.find((v) => v.name === draft.csv || v.version === draft.csv);
  const csv = version === undefined || version.head === true ? '' : version.name;
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

/** mustApprove returns why approval Automatic cannot be chosen, as the console says it, or an empty text. */
export function mustApprove({ channel, csv }: Draft, { channels }: Schemas['Offer']): string {
  const version = channels.find((c) => c.name === channel)?.versions.find((v) => v.name === csv);
  return version?.needsManual ?? '';
}

/** toRequest returns the request for a form, or what is missing in it. */
export function toRequest(draft: Draft, offer: Schemas['Offer']): Schemas['SubscriptionRequest'] | string {
  if (draft.namespace === '') return 'A namespace is required.';
  const watch = draft.watch.split(/[\s,]+/).filter((name) => name !== '');
  if (draft.mode === 'others' && watch.length === 0) return 'Name the namespaces that the operator watches.';
  const { value: config, error } = parseObject(draft.config);
  if (error !== undefined) return `The configuration is not valid. ${error}`;
  const env = Object.entries(draft.env).filter(([, value]) => value.trim() !== '').map(([name, value]) => ({ name, value: value.trim() }));
  return {
    package: draft.package, channel: draft.channel, createNamespace: draft.createNamespace, catalog: offer.catalog,
    ...(draft.csv !== '' && { startingCSV: draft.csv }),
    ...((draft.isManual || mustApprove(draft, offer) !== '') && { isManual: true }),
    ...(offer.operatorGroup === undefined && draft.mode === 'own' && { watchNamespaces: [draft.namespace] }),
    ...(offer.operatorGroup === undefined && draft.mode === 'others' && { watchNamespaces: watch }),
    ...(env.length > 0 && { env }),
    ...(config !== undefined && { config }),
  };
}
