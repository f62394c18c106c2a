import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, configure, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { api } from '../api/client';
import { InstallExtensionPage } from './installextension';

configure({ asyncUtilTimeout: 30_000 }); // slow machines

const schema = { type: 'object', required: ['watchNamespace'], properties: { watchNamespace: { type: 'string' } } };

/** sent are the bodies of the requests by their path. */
let sent: Record<string, unknown[]> = {};

/** names are the service accounts of every namespace. */
let names: string[] = [];

/** answers are the responses of the console by path. */
const answers: Record<string, (config: Record<string, unknown>) => unknown> = {
  '/api/v1/extension-offers/{package}': () => ({ catalogs: [{ catalog: 'hub', priority: 0, channels: [{ name: 'stable', versions: ['1.0.0'] }] }], versions: ['1.0.0'] }),
  '/api/v1/extension-configs': (config) => ({
    bundle: 'kettle.v1.0.0', schema, faults: config['watchNamespace'] === undefined ? [{ path: ['watchNamespace'], message: 'Required field.' }] : [],
  }),
  '/api/v1/extension-previews': () => ({ objects: [], plan: { action: 'install' } }),
  '/api/v1/names': () => ({ names }),
  '/api/v1/access': () => ({ allowed: [true] }),
  '/api/v1/extensions': () => ({ name: 'kettle' }),
};

function answer(path: string, { body = {} }: { body?: { config?: Record<string, unknown> } } = {}) {
  (sent[path] ??= []).push(body);
  return Promise.resolve({ data: answers[path]?.(body.config ?? {}) });
}

beforeEach(() => {
  sent = {};
  names = [];
  vi.spyOn(api, 'GET').mockImplementation(answer as never);
  vi.spyOn(api, 'POST').mockImplementation(answer as never);
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

function show() {
  render(
    <QueryClientProvider client={new QueryClient()}>
      <MemoryRouter initialEntries={['/install/extension?package=kettle']}><InstallExtensionPage /></MemoryRouter>
    </QueryClientProvider>,
  );
}

const press = (name: string) => { fireEvent.click(screen.getByRole('button', { name })); };

describe('the installation of an extension', () => {
  it('shows a fault of the configuration at its field after the review, and installs what the form says', async () => {
    show();
    await screen.findByRole('button', { name: 'Review' });
    press('Review');
    const field = await screen.findByRole('textbox', { name: /^watchNamespace/ });
    expect(screen.getByText('Required field.')).toBeDefined();
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Install' }).disabled).toBe(true);

    fireEvent.change(field, { target: { value: 'teas' } });
    expect(screen.queryByText('Required field.')).toBeNull();
    press('Review');
    await waitFor(() => { expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Install' }).disabled).toBe(false); });
    press('Install');
    await waitFor(() => { expect(sent['/api/v1/extensions']).toHaveLength(1); });
    expect(sent['/api/v1/extensions']).toMatchObject([{ package: 'kettle', config: { watchNamespace: 'teas' } }]);
    expect(sent['/api/v1/extension-configs']).toMatchObject([{ namespace: 'kettle' }, { config: { watchNamespace: 'teas' } }]);
  });

  it('switches to a service account that exists under the default name, and suggests the others', async () => {
    names = ['default', 'kettle-installer'];
    show();
    const field = await screen.findByRole<HTMLInputElement>('combobox', { name: 'Name of the service account' });
    expect(field.value).toBe('kettle-installer');
    expect(screen.getByRole<HTMLInputElement>('radio', { name: 'Use an existing one' }).checked).toBe(true);
    const suggested = document.getElementById(field.getAttribute('list') ?? '')?.querySelectorAll('option');
    expect([...(suggested ?? [])].map(({ value }) => value)).toEqual(names);

    fireEvent.change(field, { target: { value: 'typed' } });
    press('Review');
    await waitFor(() => { expect(sent['/api/v1/extension-previews']).toHaveLength(1); });
    expect(sent['/api/v1/extension-previews']).toMatchObject([{ serviceAccount: 'typed' }]);
  });

  it('shows the same extension as YAML', async () => {
    show();
    fireEvent.change(await screen.findByRole('textbox', { name: 'Name' }), { target: { value: 'second' } });
    press('YAML view');
    expect(screen.queryByRole('textbox', { name: 'Name' })).toBeNull();
    press('Review');
    await waitFor(() => { expect(sent['/api/v1/extension-previews']).toHaveLength(1); });
    expect(sent['/api/v1/extension-previews']).toMatchObject([{ name: 'second', object: { kind: 'ClusterExtension', metadata: { name: 'second' } } }]);

    press('Form view');
    expect(screen.getByRole<HTMLInputElement>('textbox', { name: 'Name' }).value).toBe('second');
  });
});
