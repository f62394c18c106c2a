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

/** badgeFor returns the badge of a package that is installed or being installed. */
export function badgeFor(p: Pick<PackageSummary, 'catalog' | 'name'>, items: readonly Item[]): Badge | undefined {
  const found = installedItems(p, items);
  if (found.length === 0) return undefined;
  if (found.some(({ state }) => state === 'Ready' || state === 'Succeeded')) return { text: 'Installed', status: 'success' };
  return found.some(({ state }) => state === 'Failed' || state === 'Degraded') ? { text: 'Installation failed', status: 'danger' } : { text: 'Installing', status: 'info' };
}
