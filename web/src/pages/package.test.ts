import { describe, expect, it } from 'vitest';

import { installPath } from './package';

describe('the page that installs a package', () => {
  const version = { name: 'a.v1.0.0', version: '1.0.0', image: '', channels: [], installModes: [] };

  it('takes the CatalogSource of OLM Classic as NAMESPACE/NAME, and a ClusterServiceVersion', () => {
    expect(installPath({ catalog: 'olm:samples', name: 'a' }, 'stable', version))
      .toBe('/install/subscription?package=a&catalog=olm%2Fsamples&channel=stable&version=a.v1.0.0');
  });

  it('takes the ClusterCatalog of OLM v1, and a version', () => {
    expect(installPath({ catalog: 'samples', name: 'a' }, undefined, version)).toBe('/install/extension?package=a&catalog=samples&version=1.0.0');
  });
});
