import { cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import { afterEach, describe, expect, it } from 'vitest';

import { describeStep, PlanSteps } from './plansteps';

afterEach(cleanup);

const account = { apiVersion: 'v1', kind: 'ServiceAccount', name: 'kettle', status: 'Unknown' };
const crd = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', name: 'kettles.example.com', status: 'Unknown' };

describe('the objects of a plan', () => {
  it('have kind, name, API version and status, and a new one opens its manifest', () => {
    render(<PlanSteps steps={[account, crd]} changes={[{ ...account, change: 'added', diff: '@@ -0,0 +1,2 @@\n+apiVersion: v1\n+kind: ServiceAccount' }]} isComplete />);
    const row = screen.getByRole('row', { name: /ServiceAccount/ });
    for (const text of ['ServiceAccount', 'kettle', 'v1', 'New']) expect(within(row).getByText(text)).toBeDefined();
    expect(within(screen.getByRole('row', { name: /kettles/ })).getByText('Exists, unchanged')).toBeDefined();
    expect(within(screen.getByRole('row', { name: /kettles/ })).queryByRole('button')).toBeNull();

    fireEvent.click(within(row).getByRole('button'));
    expect(document.querySelector('code')?.textContent).toBe('apiVersion: v1\nkind: ServiceAccount');
  });

  it('are not said to exist if that could not be read', () => {
    expect(describeStep(crd, false)).toBe('Not known');
    expect(describeStep({ ...crd, status: 'Present' }, false)).toBe('Exists, unchanged');
  });
});
