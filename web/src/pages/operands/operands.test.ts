import { describe, expect, it } from 'vitest';

import { matchesOperand } from './list';
import { chooseColumns, faultsWithin, mask, maskSecrets, newObject, toFaults } from './shared';
import { isWebAddress } from './value';

const ui = 'urn:alm:descriptor:com.tectonic.ui:';
const resource = { group: 'garden.example.com', version: 'v1', plural: 'orchards' };
const definition = {
  ...resource, kind: 'Orchard', namespaced: true, schema: {}, specDescriptors: [], statusDescriptors: [],
  examples: [{ apiVersion: 'garden.example.com/v1', kind: 'Orchard', metadata: { name: 'sample', labels: { a: 'b' } }, spec: { size: 3 }, status: {} }],
};

describe('a new object', () => {
  it('begins with the example, in the namespace of the page', () => {
    expect(newObject(definition, resource, 'north', 0)).toEqual({
      apiVersion: 'garden.example.com/v1', kind: 'Orchard', metadata: { name: 'sample', namespace: 'north', labels: { a: 'b' } }, spec: { size: 3 },
    });
  });

  it('has no namespace if its kind has none, and is empty without an example', () => {
    expect(newObject({ ...definition, namespaced: false }, resource, 'north', 7)).toEqual({ apiVersion: 'garden.example.com/v1', kind: 'Orchard', metadata: { name: '' }, spec: {} });
  });
});

describe('secret values', () => {
  const descriptors = [{ path: 'users[0].key', 'x-descriptors': [`${ui}password`] }, { path: 'token', 'x-descriptors': [`${ui}password`] }];

  it('are masked in all items of a list, and in the copy of kubectl', () => {
    const annotations = { 'kubectl.kubernetes.io/last-applied-configuration': '{"token":"t"}' };
    expect(maskSecrets({ metadata: { annotations }, spec: { token: 't', users: [{ key: '1' }, { key: '2', name: 'n' }] } }, descriptors)).toEqual({
      metadata: { annotations: { 'kubectl.kubernetes.io/last-applied-configuration': mask } }, spec: { token: mask, users: [{ key: mask }, { key: mask, name: 'n' }] },
    });
  });

  it('that are not set stay so', () => {
    expect(maskSecrets({ spec: { users: 1 } }, descriptors)).toEqual({ spec: { users: 1 } });
  });
});

it('columns are single values that the state does not have', () => {
  const columns = chooseColumns([
    { path: 'phase', 'x-descriptors': ['urn:alm:descriptor:io.kubernetes.phase'] }, { path: 'conditions', 'x-descriptors': ['urn:alm:descriptor:io.kubernetes.conditions'] },
    { path: 'url', displayName: 'Address', 'x-descriptors': ['urn:alm:descriptor:org.w3:link'] }, { path: 'count' },
  ]);
  expect(columns).toEqual([{ title: 'Address', path: ['url'] }, { title: 'count', path: ['count'] }]);
});

it('faults are at the fields of the form', () => {
  const faults = toFaults([{ path: ['spec', 'pools', '0', 'name'], message: 'too long' }, { path: ['metadata', 'name'], message: 'is required' }]);
  expect(faultsWithin(faults, 'spec')).toEqual([{ path: ['pools', 0, 'name'], message: 'too long' }]);
});

it('objects are found by name and state', () => {
  const item = { name: 'plum', namespace: 'north', state: 'Ready' };
  expect(matchesOperand(item, 'PLUM ready')).toBe(true);
  expect(matchesOperand(item, 'plum failed')).toBe(false);
});

it('only addresses of the web are links', () => {
  expect(['https://example.com', 'HTTP://example.com/a', 'javascript:alert(1)', 'https://', 'example.com'].filter(isWebAddress)).toEqual(['https://example.com', 'HTTP://example.com/a']);
});
