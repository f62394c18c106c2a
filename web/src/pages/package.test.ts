import { describe, expect, it } from 'vitest';

import type { Schemas } from '../api/client';
import { installPath } from './package';

const details = (catalog: string): Schemas['PackageDetails'] => ({
  catalog, name: 'a', defaultChannel: 'stable', releases: [],
  channels: [{ name: 'stable', head: 'a.v1.1.0', versions: 2 }, { name: 'beta', head: 'a.v1.1.0', versions: 1 }],
  versions: [
    { name: 'a.v1.1.0', version: '1.1.0', image: '', channels: ['stable', 'beta'], installModes: [] },
    { name: 'a.v1.0.0', version: '1.0.0', image: '', channels: ['stable'], installModes: [] },
  ],
});

describe('the page that installs a package', () => {
  it.each([
    ['olm:samples', '', '/install/subscription?package=a&catalog=olm%2Fsamples'],
    ['olm:samples', 'channel=stable&version=a.v1.0.0', '/install/subscription?package=a&catalog=olm%2Fsamples&channel=stable&version=a.v1.0.0'],
    // Users of one namespace install in it, and may read nothing elsewhere.
    ['olm:samples', 'namespace=team-a', '/install/subscription?package=a&catalog=olm%2Fsamples&namespace=team-a'],
    ['samples', 'namespace=team-a', '/install/extension?package=a&catalog=samples'],
    // Without a choice, neither channel nor version is pinned, so that updates follow the catalog.
    ['samples', 'tab=versions', '/install/extension?package=a&catalog=samples'],
    ['samples', 'channel=beta', '/install/extension?package=a&catalog=samples&channel=beta'],
    ['samples', 'version=a.v1.0.0', '/install/extension?package=a&catalog=samples&version=1.0.0'],
  ])('%s with %j', (catalog, chosen, path) => {
    expect(installPath(details(catalog), new URLSearchParams(chosen))).toBe(path);
  });
});
