import { cleanup, render, screen } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, describe, expect, it } from 'vitest';

import { isUnderway, ProgressCard } from '../components/progress';
import { summarizePlan } from '../components/plan';
import { describeCount } from '../components/removal';
import { AddressTab, AddressTabs } from '../components/source';
import { describePhase } from './extension';

afterEach(cleanup);

describe('the progress of an installation', () => {
  it('names the object that a phase waits for', () => {
    const objects = [{ apiVersion: 'v1', kind: 'Service', name: 'a', ready: true }, { apiVersion: 'apps/v1', kind: 'Deployment', name: 'b', ready: false, message: 'no pods' }];
    expect(describePhase({ name: 'deploy', state: 'current', objects })).toBe('Deployment b: no pods');
    expect(describePhase({ name: 'deploy', state: 'failed', message: 'refused', objects })).toBe('refused');
    expect(describePhase({ name: 'deploy', state: 'done', objects: [] })).toBe('');
  });

  it('says the state of each step in words', () => {
    render(<ProgressCard title="Progress" steps={[{ name: 'resolve', state: 'done' }, { name: 'operator', state: 'failed', detail: 'it crashes' }]} />);
    expect(screen.getByLabelText('operator: failed')).toBeDefined();
    expect(screen.getByText('It crashes')).toBeDefined();
    expect([isUnderway('AwaitingApproval'), isUnderway('Ready')]).toEqual([true, false]);
  });
});

describe('a plan in words', () => {
  it('says the versions and counts', () => {
    expect(summarizePlan({
      action: 'update', installed: { name: 'a', version: '1.0.0' }, bundle: { name: 'b', version: '2.0.0', catalog: 'hub' },
      objects: { added: 1, changed: 2, removed: 0, unchanged: 3 }, crdUpgradeSafety: 'safe',
    })).toBe('It updates version 1.0.0 to version 2.0.0 from catalog hub. Objects: 1 added, 2 changed, 0 removed, 3 unchanged. The changes of CRDs are safe for existing data.');
  });
});

describe('the custom resources of a CRD', () => {
  it.each([
    [{ name: 'a', customResources: 1, namespaces: ['x'] }, '1 custom resource, in x'],
    [{ name: 'a', customResources: 7, namespaces: ['1', '2', '3', '4', '5', '6'] }, '7 custom resources, in 1, 2, 3, 4, 5 and 1 more'],
    [{ name: 'a', customResources: 0, unknown: 'you are not allowed to read it' }, 'you are not allowed to read it'],
  ])('%j', (crd, text) => {
    expect(describeCount(crd)).toBe(text);
  });
});

describe('tabs', () => {
  it('show the one of the address', () => {
    render(
      <MemoryRouter initialEntries={['/?tab=b']}>
        <AddressTabs label="Tabs"><AddressTab name="a" title="A">first</AddressTab><AddressTab name="b" title="B">second</AddressTab></AddressTabs>
      </MemoryRouter>,
    );
    expect(screen.getByText('second')).toBeDefined();
    expect(screen.queryByText('first')).toBeNull();
  });
});
