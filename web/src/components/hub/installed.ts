import type { Schemas } from '../../api/client';
import type { PackageSummary } from './search';
import type { Badge } from './tiles';

type Item = Schemas['Item'];

/** installedItems returns what is installed from a package: ClusterExtensions of a package of OLM v1, and Subscriptions to a package of the catalog. */
export function installedItems(p: Pick<PackageSummary, 'catalog' | 'name'>, items: readonly Item[]): Item[] {
  const isClassic = p.catalog.includes(':');
  return items.filter((item) => item.package === p.name
    && (isClassic ? item.kind === 'Subscription' && item.catalog === p.catalog.replace(':', '/') : item.kind === 'ClusterExtension'));
}

const badges: Readonly<Record<Item['installation'], Badge>> = {
  Installed: { text: 'Installed', status: 'success' }, Installing: { text: 'Installing', status: 'info' }, Failed: { text: 'Installation failed', status: 'danger' },
};

/** badgeFor returns the badge of a package that is installed or being installed. Of several installations, one that is done counts, and then one that has failed. */
export function badgeFor(p: Pick<PackageSummary, 'catalog' | 'name'>, items: readonly Item[]): Badge | undefined {
  const found = installedItems(p, items);
  const shown = (['Installed', 'Failed', 'Installing'] as const).find((installation) => found.some((item) => item.installation === installation));
  return shown === undefined ? undefined : badges[shown];
}
