import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { useState } from 'react';
import { afterEach, describe, expect, it, vi } from 'vitest';

import type { Schemas } from '../api/client';
import { ConfigurationEditor } from './configuration';
import type { Fault } from './yamltext';

afterEach(cleanup);

const bundle: Schemas['ExtensionConfig'] = {
  bundle: 'kettle.v1.0.0', faults: [],
  schema: {
    type: 'object', required: ['watchNamespace'], additionalProperties: false,
    properties: {
      watchNamespace: { type: 'string', description: 'The namespace that the extension watches.' },
      deploymentConfig: { type: 'object', properties: { nodeSelector: { type: 'object', additionalProperties: { type: 'string' } } } },
    },
  },
};

/** renderEditor shows the editor inside of a form, and returns a function that returns its text. */
function renderEditor(text: string, { faults = [], ...known }: Partial<Schemas['ExtensionConfig']> & { faults?: Fault[] } = bundle) {
  const changed = vi.fn();
  function Page() {
    const [current, setCurrent] = useState(text);
    changed(current);
    return <form><ConfigurationEditor text={current} onChange={setCurrent} bundle={known} faults={faults} /></form>;
  }
  render(<QueryClientProvider client={new QueryClient()}><Page /></QueryClientProvider>);
  return () => changed.mock.lastCall?.[0] as unknown;
}

const write = (text: string) => { fireEvent.change(screen.getByRole('textbox', { name: /^watchNamespace/ }), { target: { value: text } }); };

describe('the configuration of a bundle', () => {
  it('shows required fields first, folds the others, and says which bundle has them', () => {
    renderEditor('');
    expect(screen.getByText('These are the fields of kettle.v1.0.0.')).toBeDefined();
    expect(screen.getByRole<HTMLInputElement>('textbox', { name: /^watchNamespace/ }).required).toBe(true);
    expect(screen.queryByText('deploymentConfig')).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: 'More fields (1)' }));
    expect(screen.getByText('deploymentConfig')).toBeDefined();
    expect(screen.queryByText('Further fields are possible in YAML.')).toBeNull();
  });

  it('changes its field in the text and nothing else; without a value, there is no configuration', () => {
    const text = renderEditor('# kept\ndeploymentConfig: {}\n');
    write('teas');
    expect(text()).toBe('# kept\ndeploymentConfig: {}\nwatchNamespace: teas\n');
    cleanup();

    const empty = renderEditor('watchNamespace: teas\n');
    write('');
    expect(empty()).toBe('');
  });

  it('shows a fault at its field, and opens what is folded around it', () => {
    renderEditor('deploymentConfig: {nodeSelector: {a.b/c: x}}', {
      ...bundle, faults: [{ path: ['watchNamespace'], message: 'it is missing' }, { path: ['deploymentConfig', 'nodeSelector', 'a.b/c'], message: 'it is wrong' }, { path: ['other'], message: 'unknown field' }],
    });
    const label = screen.getByRole('textbox', { name: /^watchNamespace/ }).closest('.pf-v6-c-form__group');
    expect(label?.textContent).toContain('it is missing');
    expect(screen.getByRole('textbox', { name: /^a\.b\/c/ }).closest('.pf-v6-c-form__group')?.textContent).toContain('it is wrong');
    expect(screen.getByText('other: unknown field')).toBeDefined();
  });

  it('is no form inside of a form', () => {
    renderEditor('');
    expect(document.querySelectorAll('form')).toHaveLength(1);
  });

  it('asks for correct YAML', () => {
    renderEditor('- a');
    expect(screen.getByText('The form needs correct YAML', { exact: false })).toBeDefined();
    fireEvent.click(screen.getByRole('button', { name: 'YAML' }));
    expect(screen.queryByText('The form needs correct YAML', { exact: false })).toBeNull();
  });

  it('offers only YAML for a bundle that cannot be read, and says why', () => {
    renderEditor('', { unknown: { detail: 'Bundle "kettle" cannot be pulled.', advice: 'Check the registry.' } });
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Form' }).disabled).toBe(true);
    expect(screen.getByText('Bundle "kettle" cannot be pulled. Check the registry.')).toBeDefined();
    expect(screen.getByRole('button', { name: 'YAML' }).getAttribute('aria-pressed')).toBe('true');
  });
});
