import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, configure, render, screen } from '@testing-library/react';
import { MemoryRouter, Route, Routes } from 'react-router';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { api, ApiError } from '../api/client';
import { InstallExtensionPage } from './installextension';
import { InstallSubscriptionPage } from './installsubscription';
import { PackagePage } from './package';

configure({ asyncUtilTimeout: 30_000 }); // slow machines

// The editor measures its text, which jsdom cannot do.
vi.mock('../components/codemirror', () => ({ Editor: () => null, Difference: () => null }));
vi.mock('../live', () => ({ useLive: () => undefined }));

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

describe('a package that does not exist', () => {
  it.each([
    ['/catalog/samples/none-such', '/catalog'],
    ['/catalog/team-a:samples/none-such?namespace=team-a', '/catalog?namespace=team-a'],
    ['/install/extension?package=none-such', '/catalog'],
    ['/install/subscription?package=none-such&namespace=team-a', '/catalog?namespace=team-a'],
  ])('leads from %s to the packages that exist', async (address, want) => {
    vi.spyOn(api, 'GET').mockRejectedValue(new ApiError(404, 'Catalog samples does not contain it.', undefined));
    render(
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <MemoryRouter initialEntries={[address]}>
          <Routes>
            <Route path="catalog/:catalog/:name" element={<PackagePage />} />
            <Route path="install/extension" element={<InstallExtensionPage />} />
            <Route path="install/subscription" element={<InstallSubscriptionPage />} />
          </Routes>
        </MemoryRouter>
      </QueryClientProvider>,
    );
    const link = await screen.findByRole('link', { name: 'Show the packages that exist' });
    expect(link.getAttribute('href')).toBe(want);
    expect(screen.getByRole('button', { name: 'Try again' })).toBeDefined();
  });
});
