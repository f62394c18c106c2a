import { describe, expect, it } from 'vitest';

import type { Schemas } from '../api/client';
import { compareItems, matchesText } from './installed';

function item(name: string, fields: Partial<Schemas['Item']> = {}): Schemas['Item'] {
  return { system: 'v1', kind: 'ClusterExtension', name, installNamespace: name, state: 'Ready', urgency: 'None', installation: 'Installed', ...fields };
}

describe('the filter of the installed list', () => {
  it.each([
    ['', true],
    ['ARGO', true],
    ['argo pull', true],
    ['argo ready', true],
    ['argo other', false],
  ])('finds %j: %s', (text, found) => {
    expect(matchesText(item('argocd', { message: 'the image cannot be pulled' }), text)).toBe(found);
  });
});

describe('the order of the installed list', () => {
  it('compares numbers in versions as numbers', () => {
    const sorted = [item('a', { version: '0.10.0' }), item('b', { version: '0.9.0' })].toSorted((a, b) => compareItems(a, b, 'version'));
    expect(sorted.map((i) => i.version)).toEqual(['0.9.0', '0.10.0']);
  });

  it('orders equal states by name', () => {
    const sorted = [item('b'), item('a')].toSorted((a, b) => compareItems(a, b, 'state'));
    expect(sorted.map((i) => i.name)).toEqual(['a', 'b']);
  });
});
