import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, describe, expect, it } from 'vitest';

import { WatchedNamespaces, type Watched } from './watched';

afterEach(cleanup);

function show(watched: Watched): string {
  return render(<MemoryRouter><WatchedNamespaces watched={watched} /></MemoryRouter>).container.textContent;
}

describe('the namespaces that an operator manages', () => {
  it('are all, or not known', () => {
    expect(show({ watchesAll: true })).toBe('all namespaces');
    expect(show({})).toBe('');
  });

  it('are a link if there is one', () => {
    show({ watches: ['team-a'] });
    expect(screen.getByRole('link', { name: 'team-a' }).getAttribute('href')).toBe('/installed?namespace=team-a');
  });

  it('are a number that opens the list if there are several', async () => {
    show({ watches: ['team-a', 'team-b'] });
    expect(screen.queryByRole('link')).toBeNull();
    fireEvent.click(screen.getByRole('button', { name: '2 namespaces' }));
    expect((await screen.findByRole('link', { name: 'team-b' })).getAttribute('href')).toBe('/installed?namespace=team-b');
  });
});
