import { describe, expect, it } from 'vitest';

import { pageOf } from './overview';

describe('the page of a notice', () => {
  it.each([
    ['Failed', 'ClusterExtension', undefined, 'argocd', '/installed/extensions/argocd'],
    ['Approval', 'Subscription', 'team a', 'argocd', '/installed/subscriptions/team%20a/argocd'],
    ['Operator', 'ClusterOperator', undefined, 'dns', '/cluster?tab=operators&operator=dns'],
    ['Nodes', 'MachineConfigPool', undefined, 'worker', '/cluster?tab=nodes'],
    ['Update', 'ClusterVersion', undefined, 'version', '/cluster?tab=updates'],
    ['Catalog', 'CatalogSource', 'olm', 'hub', '/sources'],
  ] as const)('%s of a %s in %s is %s', (topic, kind, namespace, name, page) => {
    expect(pageOf({ topic, kind, name, ...(namespace === undefined ? {} : { namespace }) })).toBe(page);
  });
});
