import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { api } from '../api/client';
import { InstallExtensionPage } from './installextension';

const schema = { type: 'object', required: ['watchNamespace'], properties: { watchNamespace: { type: 'string' } } };

/** sent are the bodies of the requests by their path. */
let sent: Record<string, unknown[]> = {};

/** answers are the responses of the console by path. */
const answers: Record<string, (config: Record<string, unknown>) => unknown> = {
  '/api/v1/extension-offers/{package}': () => ({ catalogs: [{ catalog: 'hub', priority: 0, channels: [{ name: 'stable', versions: ['1.0.0'] }] }], versions: ['1.0.0'] }),
  '/api/v1/extension-configs': (config) => ({
    bundle: 'kettle.v1.0.0', schema, faults: config['watchNamespace'] === undefined ? [{ path: ['watchNamespace'], message: 'Required field.' }] : [],
  }),
  '/api/v1/extension-previews': () => ({ objects: [], plan: { action: 'install' } }),
  '/api/v1/access': () => ({ allowed: [true] }),
  '/api/v1/extensions': () => ({ name: 'kettle' }),
};

function answer(path: string, { body = {} }: { body?: { config?: Record<string, unknown> } } = {}) {
  (sent[path] ??= []).push(body);
  return Promise.resolve({ data: answers[path]?.(body.config ?? {}) });
}

beforeEach(() => {
  sent = {};
  vi.spyOn(api, 'GET').mockImplementation(answer as never);
  vi.spyOn(api, 'POST').mockImplementation(answer as never);
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

const press = (name: string) => { fireEvent.click(screen.getByRole('button', { name })); };

describe('the installation of an extension', () => {
  it('shows a fault of the configuration at its field after the review, and installs what the form says', async () => {
    render(
      <QueryClientProvider client={new QueryClient()}>
        <MemoryRouter initialEntries={['/install/extension?package=kettle']}><InstallExtensionPage /></MemoryRouter>
      </QueryClientProvider>,
    );
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
});
