import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, configure, fireEvent, render, screen, waitFor } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { api, type Schemas } from '../api/client';
import { InstallSubscriptionPage } from './installsubscription';

configure({ asyncUtilTimeout: 30_000 }); // slow machines

// The editor measures its text, which jsdom cannot do.
vi.mock('../components/codemirror', () => ({ Editor: () => null, Difference: () => null }));

/** sent are the bodies of the requests by their path. */
let sent: Record<string, unknown[]> = {};

const offerPath = '/api/v1/namespaces/{namespace}/subscription-offers/{package}';

/** answers are the responses of the console by path. */
const answers: Record<string, unknown> = {
  [offerPath]: {
    package: 'kettle', catalog: 'olm/home', defaultNamespace: 'kettles', namespaceExists: true, details: [{ channel: 'stable', modes: ['OwnNamespace'], clouds: ['aws'] }],
    channels: [{ name: 'stable', default: true, versions: [{ name: 'kettle.v1.0.0', version: '1.0.0', head: true }] }],
  },
  '/api/v1/namespaces/{namespace}/subscription-previews': { objects: [], csv: 'kettle.v1.0.0' },
  '/api/v1/access': { allowed: [true] },
  '/api/v1/namespaces/{namespace}/subscriptions': { name: 'kettle' },
};

const unmonitored = answers[offerPath];

function answer(path: string, { body = {} }: { body?: unknown } = {}) {
  (sent[path] ??= []).push(body);
  return Promise.resolve({ data: answers[path] });
}

beforeEach(() => {
  sent = {};
  answers[offerPath] = unmonitored;
  vi.spyOn(api, 'GET').mockImplementation(answer as never);
  vi.spyOn(api, 'POST').mockImplementation(answer as never);
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

function renderPage() {
  render(
    <QueryClientProvider client={new QueryClient()}>
      <MemoryRouter initialEntries={['/install/subscription?package=kettle']}><InstallSubscriptionPage /></MemoryRouter>
    </QueryClientProvider>,
  );
}

/** pressWhenEnabled presses a button. It is disabled while the catalogs are asked. */
async function pressWhenEnabled(name: string) {
  await waitFor(() => { expect(screen.getByRole<HTMLButtonElement>('button', { name }).disabled).toBe(false); });
  fireEvent.click(screen.getByRole('button', { name }));
}

describe('the installation of an operator', () => {
  it('reviews and installs the Subscription of the YAML view, and keeps it in the form', async () => {
    renderPage();
    fireEvent.click(await screen.findByRole('radio', { name: 'Manual' }));
    await pressWhenEnabled('YAML view');
    expect(screen.queryByRole('radio', { name: 'Manual' })).toBeNull();
    expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Install' }).disabled).toBe(true);
    await pressWhenEnabled('Review');
    await pressWhenEnabled('Install');
    const installed = {
      package: 'kettle', catalog: 'olm/home', channel: 'stable', isManual: true,
      object: { kind: 'Subscription', metadata: { name: 'kettle', namespace: 'kettles' }, spec: { installPlanApproval: 'Manual' } },
    };
    await waitFor(() => { expect(sent['/api/v1/namespaces/{namespace}/subscriptions']).toMatchObject([installed]); });
    expect(sent['/api/v1/namespaces/{namespace}/subscription-previews']).toMatchObject([installed]);

    await pressWhenEnabled('Form view');
    expect(screen.getByRole<HTMLInputElement>('radio', { name: 'Manual' }).checked).toBe(true);
  });

  it.each([true, false])('sends cluster monitoring only if it is ticked, with the default %s', async (isDefault) => {
    const offer = unmonitored as Schemas['Offer'];
    answers[offerPath] = { ...offer, namespaceExists: false, details: [{ ...offer.details[0], suggestedNamespace: 'openshift-kettles', clusterMonitoring: { default: isDefault } }] };
    renderPage();
    const box = await screen.findByRole<HTMLInputElement>('checkbox', { name: 'Enable cluster monitoring for the namespace' });
    expect(box.checked).toBe(isDefault);

    for (const isTicked of [isDefault, !isDefault]) {
      if (box.checked !== isTicked) fireEvent.click(box);
      await pressWhenEnabled('Review');
      await waitFor(() => { expect(screen.getByText('What the installation does')).toBeDefined(); });
      const preview = sent['/api/v1/namespaces/{namespace}/subscription-previews']?.at(-1) as Schemas['SubscriptionRequest'];
      expect(preview.clusterMonitoring).toBe(isTicked ? true : undefined);
    }
    const asked = (sent['/api/v1/access'] as Schemas['AccessRequestBody'][]).map(({ permissions }) => permissions.map((p) => p.resource).join(' '));
    expect(asked).toContain('subscriptions');
    expect(asked).toContain('subscriptions roles rolebindings');

    fireEvent.click(screen.getByRole('checkbox', { name: 'Create the namespace if it does not exist' }));
    expect(screen.queryByRole('checkbox', { name: 'Enable cluster monitoring for the namespace' })).toBeNull();
  });

  it('does not offer cluster monitoring otherwise', async () => {
    renderPage();
    await screen.findByRole('checkbox', { name: 'Create the namespace if it does not exist' });
    expect(screen.queryByRole('checkbox', { name: 'Enable cluster monitoring for the namespace' })).toBeNull();
  });
});
