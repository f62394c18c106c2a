import { describe, expect, it } from 'vitest';

import { findMarks, isSame, parseYaml, updateYaml } from './yamltext';

const text = `# an orchard
apiVersion: example.com/v1
spec:
  # what grows
  trees:
    - name: plum # the old one
      count: 1
    - name: pear
  fence: "yes"
`;

const value = { apiVersion: 'example.com/v1', spec: { trees: [{ name: 'plum', count: 1 }, { name: 'pear' }], fence: 'yes' } };

describe('a change of a value', () => {
  it('keeps a text whose value is the same', () => {
    expect(updateYaml(text, { spec: { fence: 'yes', trees: value.spec.trees }, apiVersion: 'example.com/v1' })).toBe(text);
  });

  it('keeps comments, the order and the quotes of what stays', () => {
    const changed = { ...value, spec: { trees: [{ name: 'plum', count: 2 }], fence: 'yes', gate: { open: true } } };
    expect(updateYaml(text, changed)).toBe(`# an orchard
apiVersion: example.com/v1
spec:
  # what grows
  trees:
    - name: plum # the old one
      count: 2
  fence: "yes"
  gate:
    open: true
`);
  });

  it('replaces values of another type, and texts that are no object', () => {
    expect(parseYaml(updateYaml(text, { spec: 'none' })).value).toEqual({ spec: 'none' });
    expect(parseYaml(updateYaml('spec: [', value)).value).toEqual(value);
    expect(parseYaml(updateYaml('', value)).value).toEqual(value);
    expect(parseYaml(updateYaml('a: null\nb: 1\n', { a: { c: 1 }, b: null })).value).toEqual({ a: { c: 1 }, b: null });
  });

  it('changes numbers and texts that look alike', () => {
    expect(updateYaml('a: 1\n', { a: '1' })).toBe('a: "1"\n');
  });
});

describe('the marks of a text', () => {
  const places = (faults: Parameters<typeof findMarks>[1], source = text) => findMarks(source, faults).map(({ from, to }) => source.slice(from, to));

  it('are at the field, or at the closest parent that exists', () => {
    expect(places([
      { path: ['spec', 'trees', 0, 'count'], message: '' },
      { path: ['spec', 'gate', 'open'], message: '' },
      { path: [], message: '' },
    ])).toEqual(['count', 'spec', '']);
  });

  it('show errors of syntax', () => {
    expect(findMarks('a: [1\nb: 2', []).length).toBeGreaterThan(0);
    expect(parseYaml('a: 1\nb: "').error).toMatch(/^Line 2: /);
    expect(parseYaml('a: *none').error).toContain('none');
  });
});

it('values are the same whatever the order of their fields', () => {
  expect(isSame({ a: [1, { b: 2, c: 3 }] }, { a: [1, { c: 3, b: 2 }] })).toBe(true);
  expect(isSame({ a: undefined }, { b: undefined })).toBe(false);
  expect(isSame([1], { 0: 1 })).toBe(false);
});
