import type { Schemas } from '../api/client';
import { parseObject } from '../components/yamltext';

/** Draft is what the form of an extension contains. */
export interface Draft {
  package: string;
  name: string;
  namespace: string;
  createNamespace: boolean;
  catalogs: readonly string[];
  channel: string;
  version: string;
  isCRDUpgradeSafe: boolean;
  account: 'generated' | 'existing' | 'none';
  serviceAccount: string;
  /** config is the configuration of the bundle, as YAML. */
  config: string;
}

/** newDraft returns the form for an address. */
export function newDraft(parameters: URLSearchParams): Draft {
  const name = parameters.get('package') ?? '';
  return {
    package: name, name, namespace: name, createNamespace: true, catalogs: parameters.getAll('catalog'), channel: parameters.get('channel') ?? '',
    version: parameters.get('version') ?? '', isCRDUpgradeSafe: true, account: 'generated', serviceAccount: '', config: '',
  };
}

/** toRequest returns the request for a form, or what is missing in it. Empty fields are left out. */
export function toRequest(draft: Draft): Schemas['ExtensionRequest'] | string {
  if (draft.name === '' || draft.namespace === '') return 'A name and a namespace are required.';
  if (draft.account === 'existing' && draft.serviceAccount === '') return 'Name the service account.';
  const { value: config, error } = parseObject(draft.config);
  if (error !== undefined) return `The configuration is not valid. ${error}`;
  return {
    package: draft.package, name: draft.name, namespace: draft.namespace, createNamespace: draft.createNamespace,
    ...toBundleChoice(draft),
    ...(!draft.isCRDUpgradeSafe && { crdUpgradeSafety: 'None' as const }),
    ...(draft.account === 'generated' && { generateAccount: true }),
    ...(draft.account === 'existing' && { serviceAccount: draft.serviceAccount }),
    ...(config !== undefined && { config }),
  };
}

/** toBundleChoice returns the fields of a request that select a bundle. */
function toBundleChoice(draft: Draft) {
  return {
    ...(draft.catalogs.length > 0 && { catalogs: [...draft.catalogs] }),
    ...(draft.channel !== '' && { channels: [draft.channel] }),
    ...(draft.version.trim() !== '' && { version: draft.version.trim() }),
  };
}

/** toConfigRequest returns the question which configuration the chosen bundle accepts, without a configuration to check. */
export function toConfigRequest(draft: Draft): Schemas['ExtensionConfigRequest'] {
  return { package: draft.package, ...toBundleChoice(draft) };
}

/** versionsOf returns the versions that the chosen catalogs and channel offer, in the order of the console: the newest first. */
export function versionsOf(offers: Schemas['OfferedPackages'], { catalogs, channel }: Pick<Draft, 'catalogs' | 'channel'>): string[] {
  const offered = offers.catalogs
    .filter((offer) => catalogs.length === 0 || catalogs.includes(offer.catalog))
    .flatMap((offer) => offer.channels.filter((c) => channel === '' || c.name === channel))
    .flatMap((c) => c.versions);
  return offers.versions.filter((version) => offered.includes(version));
}
