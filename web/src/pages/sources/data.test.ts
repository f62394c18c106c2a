import { describe, expect, it } from 'vitest';

import { actionsFor, catalogKey, describeCount, parseMinutes } from './data';

describe('what can be done with a catalog', () => {
  it.each([
    ['ClusterCatalog', 'Serving', false, ['edit', 'refresh', 'disable', 'delete']],
    ['ClusterCatalog', 'Disabled', false, ['edit', 'enable', 'delete']],
    ['CatalogSource', 'NotServing', false, ['edit', 'delete']],
    ['CatalogSource', 'Serving', true, ['disable']],
    ['OperatorHub', 'Disabled', true, ['enable']],
  ] as const)('%s that is %s (default: %s): %j', (kind, state, isDefault, actions) => {
    expect(actionsFor({ kind, state, isDefault })).toEqual(actions);
  });
});

describe('poll intervals', () => {
  it.each([['30m', 30], ['1h30m', 90], ['24h', 1440], ['45m0s', 45], [undefined, 0], ['soon', 0]] as const)('%s has %d minutes', (text, minutes) => {
    expect(parseMinutes(text)).toBe(minutes);
  });
});

describe('the number of packages', () => {
  it.each([[undefined, ''], [0, '0 packages'], [1, '1 package'], [5000, '5000 packages']] as const)('%s is %j', (count, words) => {
    expect(describeCount(count)).toBe(words);
  });

  it('is counted by the name that lists of packages use', () => {
    expect([catalogKey({ name: 'hub' }), catalogKey({ namespace: 'olm', name: 'hub' })]).toEqual(['hub', 'olm:hub']);
  });
});
