import { cleanup, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { ApiError } from '../api/client';
import { ConfirmDialog } from './confirm';

afterEach(cleanup);

function open(typed: string | undefined, error: Error | null = null) {
  const confirm = vi.fn();
  render(
    <ConfirmDialog title="Uninstall argocd?" action="Uninstall" typed={typed} isDanger isPending={false} error={error} onConfirm={confirm} onClose={vi.fn()}>
      Everything is removed.
    </ConfirmDialog>,
  );
  return confirm;
}

const button = () => screen.getByRole<HTMLButtonElement>('button', { name: 'Uninstall' });

describe('a confirmation', () => {
  it('waits for the typed name', () => {
    const confirm = open('argocd');
    expect(button().disabled).toBe(true);
    fireEvent.change(screen.getByRole('textbox'), { target: { value: 'argo' } });
    expect(button().disabled).toBe(true);
    fireEvent.change(screen.getByRole('textbox'), { target: { value: 'argocd' } });
    fireEvent.click(button());
    expect(confirm).toHaveBeenCalledOnce();
  });

  it('asks for nothing where nothing is lost', () => {
    const confirm = open(undefined);
    fireEvent.click(button());
    expect(confirm).toHaveBeenCalledOnce();
    expect(screen.queryByRole('textbox')).toBeNull();
  });

  it('shows what the server refused, and what to do', () => {
    open(undefined, new ApiError(409, 'It changed.', 'Reload the page.'));
    expect(screen.getByText('It changed.')).toBeDefined();
    expect(screen.getByText('Reload the page.')).toBeDefined();
  });
});
