import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, render, screen, waitFor } from '@testing-library/react';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { api } from '../api/client';
import { describeRule, GuardedButton, isFarReaching, PermissionRules, type Rule } from './permissions';

afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
});

describe('a rule in words', () => {
  it.each<[Rule, string, boolean]>([
    [{ verbs: ['get', 'list', 'watch'], apiGroups: [''], resources: ['configmaps'] }, 'read configmaps', false],
    [{ verbs: ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'], apiGroups: ['apps'], resources: ['deployments'] }, 'read, create, change and delete deployments (apps)', false],
    [{ verbs: ['get', 'update'], apiGroups: [''], resources: ['pods', 'services'] }, 'get and update pods and services', false],
    [{ verbs: ['get'], apiGroups: [''], resources: ['secrets'], resourceNames: ['a', 'b'] }, 'get secrets named a, b', false],
    [{ verbs: ['get'], apiGroups: [''], resources: ['secrets'] }, 'get secrets', true],
    [{ verbs: ['*'], apiGroups: ['*'], resources: ['*'] }, 'do everything with all resources of every API group', true],
    [{ verbs: ['escalate', 'bind'], apiGroups: ['rbac.authorization.k8s.io'], resources: ['roles'] }, 'escalate and bind roles (rbac.authorization.k8s.io)', true],
    [{ verbs: ['get'], nonResourceURLs: ['/metrics'] }, 'get the paths /metrics', false],
  ])('%j', (rule, text, far) => {
    expect(describeRule(rule)).toBe(text);
    expect(isFarReaching(rule)).toBe(far);
  });

  it('shows those that reach furthest first', () => {
    render(<PermissionRules rules={[{ verbs: ['get'], resources: ['pods'] }, { verbs: ['*'], resources: ['pods'] }]} />);
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
