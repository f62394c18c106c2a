import { describe, expect, it } from 'vitest';

import type { Schemas } from '../../api/client';
import { badgeFor } from './installed';

type Item = Schemas['Item'];

const extension: Item = { system: 'v1', kind: 'ClusterExtension', name: 'mine', package: 'argocd', installNamespace: 'argocd', state: 'Ready', urgency: 'None', installation: 'Installed' };
const subscription: Item = { system: 'classic', kind: 'Subscription', name: 'argocd', namespace: 'a', package: 'argocd', catalog: 'olm/hub', installNamespace: 'a', state: 'Pending', urgency: 'Busy', installation: 'Installing' };

describe('the badge of a package', () => {
  it.each([
    ['hub', 'argocd', [extension], 'Installed'],
    ['hub', 'argocd', [subscription], undefined],
    ['hub', 'other', [extension], undefined],
    ['olm:hub', 'argocd', [subscription], 'Installing'],
    ['olm:other', 'argocd', [subscription], undefined],
    ['olm:hub', 'argocd', [subscription, { ...subscription, installation: 'Failed' as const }], 'Installation failed'],
    ['olm:hub', 'argocd', [{ ...subscription, installation: 'Failed' as const }, { ...subscription, installation: 'Installed' as const }], 'Installed'],
  ])('of %s/%s', (catalog, name, items, want) => {
    expect(badgeFor({ catalog, name }, items)?.text).toBe(want);
  });
});
