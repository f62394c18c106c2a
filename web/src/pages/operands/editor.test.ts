import { describe, expect, it } from 'vitest';

import { isSameContent } from './editor';

describe('an object that has changed on the cluster', () => {
  const read = { metadata: { name: 'a', resourceVersion: '1', labels: { team: 'teas' } }, spec: { size: 1 } };

  it('is no conflict if only its status has changed', () => {
    expect(isSameContent({ ...read, metadata: { ...read.metadata, resourceVersion: '2' }, status: { ready: true } }, read)).toBe(true);
  });

  it('is one if a label or the content has changed', () => {
    expect(isSameContent({ ...read, metadata: { ...read.metadata, labels: {} } }, read)).toBe(false);
    expect(isSameContent({ ...read, spec: { size: 2 } }, read)).toBe(false);
  });
});
