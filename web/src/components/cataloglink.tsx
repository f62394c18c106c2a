import { Button } from '@patternfly/react-core';
import { Link } from 'react-router';

import { useNamespace } from './namespace';

/** CatalogLink leads from a package that cannot be shown to those that exist, in the namespace of the address. */
export function CatalogLink() {
  const [namespace] = useNamespace();
  const search = namespace === '' ? '' : `?namespace=${encodeURIComponent(namespace)}`;
  return <Button variant="link" component={(props) => <Link {...props} to={`/catalog${search}`} />}>Show the packages that exist</Button>;
}
