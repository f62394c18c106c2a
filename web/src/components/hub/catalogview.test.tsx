import { cleanup, configure, fireEvent, render, screen, within } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { CatalogView } from './catalogview';
import type { PackageSummary } from './search';

configure({ asyncUtilTimeout: 30_000 }); // slow machines
beforeEach(() => {
  vi.stubGlobal('matchMedia', () => ({ matches: true }));
  vi.stubGlobal('ResizeObserver', class {
    observe() { /* The window does not change. */ }
    disconnect() { /* There is nothing to stop. */ }
  });
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

const packages: PackageSummary[] = ['argocd', 'grafana', 'kettle'].map((name) => ({ catalog: 'hub', name }));
const badgeOf = ({ name }: PackageSummary) => (name === 'kettle' ? { text: 'Installed', status: 'success' as const } : undefined);

function show(address: string, shown = packages) {
  render(<MemoryRouter initialEntries={[address]}><CatalogView packages={shown} badgeOf={badgeOf} /></MemoryRouter>);
}

/** valuesOfInstalled returns the texts of the filter: each value with its count. */
function valuesOfInstalled(): (string | null)[] {
  return within(screen.getByRole('group', { name: 'Installed' })).getAllByText(/^(Yes|No)/).map(({ textContent }) => textContent);
}

describe('the filter for what is installed', () => {
  it('counts the packages, and shows the chosen ones', async () => {
    show('/catalog');
    expect(valuesOfInstalled()).toEqual([expect.stringMatching(/^No 2/), expect.stringMatching(/^Yes 1/)]);
    fireEvent.click(screen.getByRole('checkbox', { name: /^Yes/ }));
    expect(await screen.findByText('1 of 3 packages')).toBeDefined();
    expect(valuesOfInstalled()).toEqual([expect.stringMatching(/^No 2/), expect.stringMatching(/^Yes 1/)]);
  });

  it('is part of the address', async () => {
    show('/catalog?installed=No');
    expect(await screen.findByText('2 of 3 packages')).toBeDefined();
  });
});

describe('packages that fit no node', () => {
  it('are shown only on request', async () => {
    show('/catalog', [...packages, { catalog: 'hub', name: 'mainframe', otherPlatform: 'The nodes have amd64.' }]);
    expect(screen.getByText('3 packages')).toBeDefined();
    expect(screen.getByText(/^1 package is not shown/)).toBeDefined();
    fireEvent.click(screen.getByRole('button', { name: 'Show it' }));
    expect(await screen.findByText('4 packages')).toBeDefined();
    fireEvent.click(screen.getByRole('button', { name: 'Hide it' }));
    expect(await screen.findByText('3 packages')).toBeDefined();
  });

  it('are not mentioned if there is none', () => {
    show('/catalog');
    expect(screen.queryByText(/not shown/)).toBeNull();
  });
});
