import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen, waitFor } from '@testing-library/react';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { api } from '../api/client';
import { describeRule, GuardedButton, PermissionRules, type Rule } from './permissions';

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

describe('a rule in words', () => {
  it.each<[Rule, string]>([
    [{ verbs: ['get', 'list', 'watch'], apiGroups: [''], resources: ['configmaps'] }, 'read configmaps'],
    [{ verbs: ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'], apiGroups: ['apps'], resources: ['deployments'] }, 'read, create, change and delete deployments (apps)'],
    [{ verbs: ['get', 'update'], apiGroups: [''], resources: ['pods', 'services'] }, 'get and update pods and services'],
    [{ verbs: ['get'], apiGroups: [''], resources: ['secrets'], resourceNames: ['a', 'b'] }, 'get secrets named a, b'],
    [{ verbs: ['get'], apiGroups: [''], resources: ['secrets'] }, 'get secrets'],
    [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }, 'do everything with all resources of every API group'],
    [{ verbs: ['escalate', 'bind'], apiGroups: ['rbac.authorization.k8s.io'], resources: ['roles'] }, 'escalate and bind roles (rbac.authorization.k8s.io)'],
    [{ verbs: ['get'], nonResourceURLs: ['/metrics'] }, 'get the paths /metrics'],
  ])('%j', (rule, text) => {
    expect(describeRule(rule)).toBe(text);
  });

  it('shows those that reach furthest first', () => {
    render(<PermissionRules rules={[{ verbs: ['get'], resources: ['pods'] }, { verbs: ['*'], resources: ['pods'], farReaching: true }]} />);
    expect(screen.getAllByRole('listitem').map((item) => item.textContent)).toEqual(['do everything with pods Far-reaching', 'get pods']);
  });
});

describe('a button for what the user may not do', () => {
  it('is disabled', async () => {
    vi.spyOn(api, 'POST').mockResolvedValue({ data: { allowed: [true, false] }, response: new Response() });
    render(
      <QueryClientProvider client={new QueryClient()}>
        <GuardedButton permissions={[{ verb: 'get', resource: 'pods' }, { verb: 'delete', resource: 'pods' }]}>Delete</GuardedButton>
      </QueryClientProvider>,
    );
    await waitFor(() => { expect(screen.getByRole('button').getAttribute('aria-disabled')).toBe('true'); });
  });
});
