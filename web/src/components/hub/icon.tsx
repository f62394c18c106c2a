import { CubeIcon } from '@patternfly/react-icons';
import { useState } from 'react';

import type { PackageSummary } from './search';
import { useSite } from './source';

/** PackageIcon shows the icon of a package, or a cube if it has none. The name beside it says what it is. */
export function PackageIcon({ p }: { p: Pick<PackageSummary, 'icon'> }) {
  const { iconAddress } = useSite();
  const [isBroken, setBroken] = useState(false);
  if (p.icon === undefined || isBroken) return <CubeIcon className="mainstay-icon" />;
  return <img src={iconAddress(p.icon)} alt="" loading="lazy" decoding="async" className="mainstay-icon" onError={() => { setBroken(true); }} />;
}
