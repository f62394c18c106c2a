import { describe, expect, it } from 'vitest';

import { graphOf, nextReleases } from './graph';

describe('the graph of releases', () => {
  it('has the present release and what it can be updated to', () => {
    const option = (version: string) => ({ release: { version, image: version }, assessment: 'Recommended' as const });
    const releases = nextReleases({
      desired: { version: '1.4.2', image: 'a' },
      minors: [{ version: '1.5', updates: [{ ...option('1.5.0'), recommended: 'False' }] }, { version: '1.4', updates: [option('1.4.3')] }],
    });
    const { nodes, edges } = graphOf(releases, '1.4.2');
    expect(nodes.map((n) => [n.id, n.state])).toEqual([['1.5.0', undefined], ['1.4.3', undefined], ['1.4.2', 'current']]);
    expect(edges).toEqual([{ from: '1.4.2', to: '1.4.3', kind: 'recommended' }, { from: '1.4.2', to: '1.5.0', kind: 'conditional' }]);
  });

  it('leaves out updates to releases that it does not have', () => {
    expect(graphOf([{ version: '1.0.0', image: 'a', updates: ['2.0.0'] }], '1.0.0').edges).toEqual([]);
  });
});
