import { cleanup, configure, fireEvent, render, screen } from '@testing-library/react';
import { MemoryRouter, useLocation } from 'react-router';
import { afterEach, describe, expect, it } from 'vitest';

import { formatDate, PackageView } from './packageview';
import type { PackageDetails } from './versions';

configure({ asyncUtilTimeout: 30_000 }); // slow machines
afterEach(cleanup);

const details: PackageDetails = {
  catalog: 'hub', name: 'argocd', defaultChannel: 'stable', deprecated: 'use another', otherPlatform: 'the nodes have another one',
  channels: [{ name: 'alpha', head: 'v2', versions: 1 }, { name: 'stable', head: 'v1', versions: 1, deprecated: 'use alpha' }],
  versions: [{ name: 'v2', version: '2.0.0', channels: ['alpha'] }, { name: 'v1', version: '1.0.0', channels: ['stable'], deprecated: 'too old' }],
  releases: [
    { bundle: 'v1', provider: { name: 'Evil', url: 'javascript:alert(1)' }, description: 'The **old** one <script>alert(1)</script>' },
    { bundle: 'v2', provider: { name: 'Argo', url: 'https://example.com' }, description: 'The new one' },
  ],
};

function Address() {
  return <output>{useLocation().search}</output>;
}

function show(address: string) {
  return render(<MemoryRouter initialEntries={[address]}><PackageView details={details} tabs={[]} /><Address /></MemoryRouter>);
}

describe('the page of a package', () => {
  it('shows all deprecations together, a warning about the platform, and nothing that the author could run', () => {
    const { container } = show('/');
    expect(screen.getByText('Package: use another')).toBeTruthy();
    expect(screen.getByText('the nodes have another one')).toBeTruthy();
    expect(screen.getByText('Channel stable: use alpha')).toBeTruthy();
    expect(screen.getByText('Version 1.0.0: too old')).toBeTruthy();
    expect(container.querySelector('.mainstay-markdown')?.innerHTML).toBe('<p>The <strong>old</strong> one </p>\n');
    expect(screen.getByText('Evil').closest('a')).toBeNull();
  });

  it('shows the head of another channel, and keeps the choice in the address', () => {
    const { container } = show('/?version=v1');
    fireEvent.change(screen.getByLabelText('Channel'), { target: { value: 'alpha' } });
    expect(screen.getByText('The new one')).toBeTruthy();
    expect(screen.getByText('Argo').closest('a')?.rel).toContain('noopener');
    expect(container.querySelector('output')?.textContent).toBe('?channel=alpha');
  });

  it('opens the tab of the address', () => {
    show('/?tab=apis');
    expect(screen.getByText('The catalog lists no images.')).toBeTruthy();
  });
});

describe('the date of a package', () => {
  it.each([['2020-12-16T13:37:00+00:00', '2020-12-16'], ['2020-12-16 13:37:00', '2020-12-16'], ['2020-12-16', '2020-12-16'], ['last summer', 'last summer'], [undefined, undefined]])('%s', (text, date) => {
    expect(formatDate(text)).toBe(date);
  });
});
