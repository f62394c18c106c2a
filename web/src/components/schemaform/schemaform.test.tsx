import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { useState } from 'react';
import { afterEach, describe, expect, it, vi } from 'vitest';

import type { Fault } from '../yamltext';
import { SchemaForm, type Descriptor } from '.';

afterEach(cleanup);
vi.setConfig({ testTimeout: 60_000 });

const schema = {
  type: 'object',
  required: ['size', 'host'],
  properties: {
    size: { type: 'integer', description: 'How many trees. A second sentence.', minimum: 0 },
    host: { type: 'object', required: ['name'], properties: { name: { type: 'string' }, port: { 'x-kubernetes-int-or-string': true } } },
    mode: { type: 'string', enum: ['fast', 'slow'], default: 'fast' },
    secret: { type: 'string' },
    secretName: { type: 'string' },
    tags: { type: 'array', items: { type: 'string' } },
    labels: { type: 'object', additionalProperties: { type: 'string' } },
    enabled: { type: 'boolean' },
    resources: { type: 'object', properties: { limits: { type: 'object', additionalProperties: { type: 'string' } } } },
    tree: { $ref: '#/$defs/tree' },
  },
  $defs: { tree: { type: 'object', properties: { left: { $ref: '#/$defs/tree' }, leaf: { type: 'string' } } } },
};

const ui = 'urn:alm:descriptor:com.tectonic.ui:';

/** renderForm shows a form and returns a function that returns its value. */
function renderForm(value: unknown, descriptors: readonly Descriptor[] = [], faults: readonly Fault[] = []) {
  const changed = vi.fn();
  function Page() {
    const [current, setCurrent] = useState(value);
    changed(current);
    const listNames = ({ kind }: { kind: string }) => Promise.resolve([`one-${kind}`]);
    return <SchemaForm schema={schema} value={current} onChange={setCurrent} descriptors={descriptors} faults={faults} listNames={listNames} />;
  }
  render(<QueryClientProvider client={new QueryClient()}><Page /></QueryClientProvider>);
  return () => changed.mock.lastCall?.[0] as unknown;
}

const write = (label: string, text: string) => { fireEvent.change(screen.getByLabelText(new RegExp(`^${label}\\W*$`)), { target: { value: text } }); };
const press = (name: string) => { fireEvent.click(screen.getByRole('button', { name })); };
/** labels returns the labels of the inputs that are shown. */
const labels = () => [...document.querySelectorAll('label')].map((label) => label.textContent.replace('*', '').trim());

describe('a form', () => {
  it('shows optional fields if it has no others', () => {
    render(<QueryClientProvider client={new QueryClient()}><SchemaForm isPart schema={{ type: 'object', properties: { speed: { type: 'string' } } }} value={undefined} onChange={() => undefined} faults={[]} /></QueryClientProvider>);
    expect(labels()).toEqual(['speed']);
  });

  it('shows all fields of a short item of a list', () => {
    const variable = { type: 'object', required: ['name'], properties: { name: { type: 'string' }, value: { type: 'string' } } };
    render(<QueryClientProvider client={new QueryClient()}><SchemaForm isPart schema={{ type: 'object', properties: { env: { type: 'array', items: variable } } }} value={{ env: [{ name: 'a' }] }} onChange={() => undefined} faults={[]} /></QueryClientProvider>);
    expect(labels()).toEqual(['name', 'value']);
  });

  it('shows required fields, and those with a value; the others are folded', () => {
    const value = renderForm({ mode: 'slow', unknown: { kept: true } });
    expect(labels()).toEqual(['name', 'size', 'mode']);
    expect(screen.getByText('How many trees.')).toBeDefined();
    write('size', '3');
    write('name', 'orchard');
    write('mode', '0');
    expect(value()).toEqual({ size: 3, mode: 'fast', host: { name: 'orchard' }, unknown: { kept: true } });
    press('More fields (7)');
    write('secret', 's');
    write('secret', '');
    fireEvent.click(screen.getByLabelText('enabled'));
    expect(value()).toEqual({ size: 3, mode: 'fast', enabled: true, host: { name: 'orchard' }, unknown: { kept: true } });
    press('Remove the value of mode');
    expect(value()).toEqual({ size: 3, enabled: true, host: { name: 'orchard' }, unknown: { kept: true } });
  });

  it('adds to lists and maps, and removes from them', () => {
    const value = renderForm({ tags: ['a', 'b'], labels: { x: '1' } });
    press('Remove item 1 of tags');
    press('Add to tags');
    write('Item 2', 'c');
    write('Name of a new entry of labels', 'x');
    expect(screen.getByText('There is an entry with this name.')).toBeDefined();
    write('Name of a new entry of labels', 'y');
    press('Add to labels');
    write('y', '2');
    press('Remove x from labels');
    expect(value()).toEqual({ tags: ['b', 'c'], labels: { y: '2' } });
  });

  it('keeps numbers and texts apart', () => {
    const value = renderForm({ host: { port: 80 } });
    write('port', 'https');
    expect(value()).toEqual({ host: { port: 'https' } });
    write('port', '443');
    expect(value()).toEqual({ host: { port: 443 } });
  });

  it('shows a schema that contains itself', () => {
    const value = renderForm({ tree: { left: { leaf: 'x' } } });
    write('leaf', 'y');
    expect(value()).toEqual({ tree: { left: { leaf: 'y' } } });
  });

  it('shows faults at their fields, opens what is folded, and shows the others above', () => {
    renderForm({}, [], [{ path: ['secret'], message: 'is too short' }, { path: ['none'], message: 'is unknown' }, { path: [], message: 'is refused' }]);
    expect(screen.getByText('is too short')).toBeDefined();
    expect(screen.getByText(/none: is unknown is refused/)).toBeDefined();
  });
});

describe('descriptors', () => {
  it('order the fields, name them, and fold or hide some', () => {
    renderForm({}, [
      { path: 'secret', displayName: 'Pass phrase', 'x-descriptors': [`${ui}password`] },
      { path: 'size', displayName: 'Trees', 'x-descriptors': [`${ui}podCount`] },
      { path: 'mode', 'x-descriptors': [`${ui}advanced`] },
      { path: 'enabled', 'x-descriptors': [`${ui}hidden`] },
    ]);
    expect(labels()).toEqual(['name', 'Pass phrase', 'Trees']);
    expect(screen.getByLabelText('Pass phrase').getAttribute('type')).toBe('password');
    press('Show Pass phrase');
    expect(screen.getByLabelText('Pass phrase').getAttribute('type')).toBe('text');
    press('Advanced (1)');
    expect(labels()).toContain('mode');
    press('More fields (5)');
    expect(labels()).not.toContain('enabled');
  });

  it('show a field only while another has a value', () => {
    renderForm({ mode: 'fast' }, [{ path: 'mode' }, { path: 'secret', 'x-descriptors': [`${ui}fieldDependency:mode:slow`] }]);
    expect(labels()).not.toContain('secret');
    write('mode', '1');
    expect(labels()).toContain('secret');
  });

  it('count, select, name objects, and edit resources', async () => {
    const value = renderForm({ size: 1 }, [
      { path: 'size', 'x-descriptors': [`${ui}podCount`] },
      { path: 'secret', 'x-descriptors': [`${ui}select:a`, `${ui}select:b`] },
      { path: 'secretName', 'x-descriptors': ['urn:alm:descriptor:io.kubernetes:Secret'] },
      { path: 'enabled', 'x-descriptors': [`${ui}booleanSwitch`] },
      { path: 'resources', 'x-descriptors': [`${ui}resourceRequirements`] },
    ]);
    press('More: size');
    write('secret', '1');
    expect((await screen.findByText('one-Secret')).tagName).toBe('OPTION');
    write('secretName', 'one-Secret');
    fireEvent.click(screen.getByRole('switch', { name: 'enabled' }));
    write('resources: Limit of CPU', '1');
    expect(value()).toEqual({ size: 2, secret: 'b', secretName: 'one-Secret', enabled: true, resources: { limits: { cpu: '1' } } });
    write('resources: Limit of CPU', '');
    expect(value()).not.toHaveProperty('resources');
  });

  it('have no effect where they do not fit', () => {
    const value = renderForm({ size: 1 }, [{ path: 'size', 'x-descriptors': [`${ui}booleanSwitch`, 'urn:alm:descriptor:io.kubernetes:text', 'nonsense'] }]);
    write('size', '2');
    expect(value()).toEqual({ size: 2 });
  });
});
