import type { Schemas } from '../../api/client';

export type Source = Schemas['PackageSource'];

/** sourceKey identifies a source in lists and addresses. */
export function sourceKey({ kind, namespace, name }: Pick<Source, 'kind' | 'namespace' | 'name'>): string {
  return [kind, namespace, name].filter((part) => part !== undefined).join('/');
}

/** catalogKey identifies the catalog of a source in lists of packages. */
export function catalogKey({ namespace, name }: Pick<Source, 'namespace' | 'name'>): string {
  return namespace === undefined ? name : `${namespace}:${name}`;
}

/** describeCount returns the number of packages of a catalog in words. It is empty while the number is not known. */
export function describeCount(count: number | undefined): string {
  if (count === undefined) return '';
  return count === 1 ? '1 package' : `${count} packages`;
}

/** permissionOn returns the right to do something with the object of a source. */
export function permissionOn({ kind, namespace, name }: Pick<Source, 'kind' | 'namespace' | 'name'>, verb: 'create' | 'patch' | 'delete'): Schemas['Permission'] {
  switch (kind) {
    case 'ClusterCatalog':
      return { verb, group: 'olm.operatorframework.io', resource: 'clustercatalogs', name };
    case 'CatalogSource':
      return { verb, group: 'operators.coreos.com', resource: 'catalogsources', namespace: namespace ?? '', name };
    case 'OperatorHub':
      return { verb, group: 'config.openshift.io', resource: 'operatorhubs', name: 'cluster' };
  }
}

/** What can be done with a source. */
export type SourceAction = 'edit' | 'refresh' | 'enable' | 'disable' | 'delete';

/** actionsFor returns what can be done with a source. A default catalog is managed by its OperatorHub. */
export function actionsFor({ kind, state, isDefault }: Pick<Source, 'kind' | 'state' | 'isDefault'>): SourceAction[] {
  const toggle: SourceAction = state === 'Disabled' ? 'enable' : 'disable';
  if (isDefault === true) return [toggle];
  if (kind === 'ClusterCatalog') return state === 'Disabled' ? ['edit', toggle, 'delete'] : ['edit', 'refresh', toggle, 'delete'];
  return ['edit', 'delete'];
}

/** parseMinutes returns the minutes of a duration such as "1h30m". */
export function parseMinutes(interval: string | undefined): number {
  const match = /^(?:(\d+)h)?(?:(\d+)m)?(?:\d+s)?$/.exec(interval ?? '');
  return match === null ? 0 : Number(match[1] ?? 0) * 60 + Number(match[2] ?? 0);
}
