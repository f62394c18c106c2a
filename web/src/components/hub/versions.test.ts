import { describe, expect, it } from 'vitest';

import { chooseVersion, drawUpdates, type PackageDetails } from './versions';

const details: PackageDetails = {
  catalog: 'hub', name: 'argocd', defaultChannel: 'stable',
  channels: [{ name: 'alpha', head: 'v3', versions: 2 }, { name: 'stable', head: 'v2', versions: 2, deprecated: 'use alpha' }],
  versions: [
    { name: 'v3', version: '3.0.0', channels: ['alpha'] }, { name: 'v2', version: '2.0.0', channels: ['stable'] },
    { name: 'v1', version: '1.0.0', channels: ['alpha', 'stable'], deprecated: 'too old' },
  ],
  updates: [{ from: 'v1', to: 'v2', kind: 'replaces' }],
  releases: [{ bundle: 'v2', provider: {} }, { bundle: 'v3', provider: {} }],
};

describe('the choice of a version', () => {
  it.each([
    [null, null, 'stable', 'v2', 'v2'],
    ['alpha', null, 'alpha', 'v3', 'v3'],
    ['alpha', 'v1', 'alpha', 'v1', 'v3'],
    ['alpha', 'v2', 'alpha', 'v3', 'v3'],
    [null, 'v1', 'stable', 'v1', 'v2'],
    [null, 'v3', 'alpha', 'v3', 'v3'],
    ['none', 'none', 'stable', 'v2', 'v2'],
  ])('of channel %s and version %s', (channel, version, wantChannel, wantVersion, wantRelease) => {
    const choice = chooseVersion(details, channel, version);
    expect([choice.channel?.name, choice.version?.name, choice.release?.bundle]).toEqual([wantChannel, wantVersion, wantRelease]);
  });

  it('accepts a package without channels', () => {
    const choice = chooseVersion({ ...details, channels: [], releases: [] }, null, null);
    expect([choice.channel, choice.version?.name, choice.release]).toEqual([undefined, 'v3', undefined]);
  });
});

it('marks heads and deprecated versions in the graph', () => {
  expect(drawUpdates(details).nodes.map(({ label, badges, state }) => [label, state, badges?.join(' ')])).toEqual([
    ['3.0.0', 'current', 'head of alpha'], ['2.0.0', 'current', 'head of stable'], ['1.0.0', 'warning', 'deprecated'],
  ]);
});

it('leaves out updates by range that others imply, except those of the selected version', () => {
  const range = (from: string, to: string) => ({ from, to, kind: 'skipRange' as const });
  const all = { ...details, updates: [range('v1', 'v2'), range('v2', 'v3'), range('v1', 'v3'), range('v3', 'v4'), range('v2', 'v4'), range('v1', 'v4')] };
  const drawn = (selected?: string) => drawUpdates(all, selected).edges.map(({ from, to }) => `${from}${to}`);
  expect(drawn()).toEqual(['v1v2', 'v2v3', 'v3v4']);
  expect(drawn('v4')).toEqual(['v1v2', 'v2v3', 'v3v4', 'v2v4', 'v1v4']);
});
