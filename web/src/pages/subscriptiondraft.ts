import type { Schemas } from '../api/client';

/** Draft is what the form of a Subscription contains. */
export interface Draft {
  package: string;
  catalog: string;
  /** namespace is empty until a person chooses one. */
  namespace: string;
  createNamespace: boolean;
  channel: string;
  /** csv is the version to start with. Empty means the newest of the channel. */
  csv: string;
  /** mode is the install mode of a new OperatorGroup. Empty means the one that the operator supports. */
  mode: '' | 'all' | 'own' | 'others';
  watch: string;
  isManual: boolean;
  env: Readonly<Record<string, string>>;
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
    mode: '', watch: '', isManual: false, env: {},
  };
}

/** completeDraft fills in what the author of the operator recommends, where the person has chosen nothing. */
export function completeDraft(draft: Draft, offer: Schemas['Offer']): Draft {
  const channel = draft.channel !== '' ? draft.channel : (offer.channels.find((c) => c.default === true)?.name ?? offer.channels[0]?.name ?? '');
  const versions = offer.channels.find((c) => c.name === channel)?.versions ?? [];
  // The address may name the version instead of the ClusterServiceVersion.
  const version = versions.find((v) => v.name === draft.csv || v.version === draft.csv);
  const csv = version === undefined || version.head === true ? '' : version.name;
  return { ...draft, channel, csv };
}

/** suggestedNamespace returns the namespace that the author of the operator recommends. Without one, it is the name of the package. */
export function suggestedNamespace(offer: Schemas['Offer'], channel: string): string {
  return offer.details.find((d) => d.channel === channel)?.suggestedNamespace ?? offer.package;
}

/** mustApprove returns why approval Automatic cannot be chosen, as the console says it, or an empty text. */
export function mustApprove({ channel, csv }: Draft, { channels, needsManual = '' }: Schemas['Offer']): string {
  const version = channels.find((c) => c.name === channel)?.versions.find((v) => v.name === csv);
  return version?.needsManual ?? needsManual;
}

/** toRequest returns the request for a form, or what is missing in it. */
export function toRequest(draft: Draft, offer: Schemas['Offer']): Schemas['SubscriptionRequest'] | string {
  if (draft.namespace === '') return 'A namespace is required.';
  const watch = draft.watch.split(/[\s,]+/).filter((name) => name !== '');
  if (draft.mode === 'others' && watch.length === 0) return 'Name the namespaces that the operator watches.';
  const env = Object.entries(draft.env).filter(([, value]) => value.trim() !== '').map(([name, value]) => ({ name, value: value.trim() }));
  return {
    package: draft.package, channel: draft.channel, createNamespace: draft.createNamespace, catalog: offer.catalog,
    ...(draft.csv !== '' && { startingCSV: draft.csv }),
    ...((draft.isManual || mustApprove(draft, offer) !== '') && { isManual: true }),
    ...(offer.operatorGroup === undefined && draft.mode === 'own' && { watchNamespaces: [draft.namespace] }),
    ...(offer.operatorGroup === undefined && draft.mode === 'others' && { watchNamespaces: watch }),
    ...(env.length > 0 && { env }),
  };
}
