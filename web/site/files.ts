import type { Schemas } from '../src/api/client';
import type { PackageSummary } from '../src/components/hub/search';

/** Manifest is a file that installs a package. */
export interface Manifest {
  kind: 'ClusterExtension' | 'Subscription';
  file: string;
  yaml: string;
}

/** SitePackage is a package with the manifests that install it. */
export type SitePackage = Schemas['PackageDetails'] & { manifests: Manifest[] };

/** readPackages reads the list of packages. */
export function readPackages(): Promise<{ title: string; packages: PackageSummary[] }> {
  return readFile('data/packages.json');
}

/** readPackage reads a package. Names that no package can have are refused, so that an address cannot name another file. */
export async function readPackage(name: string): Promise<SitePackage> {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(name)) throw new Error(`The catalog has no package "${name}".`);
  return readFile(`data/packages/${name}.json`);
}

async function readFile<T>(name: string): Promise<T> {
  const response = await fetch(name);
  if (!response.ok) throw new Error(response.status === 404 ? 'The site has no such page.' : `The web server answered ${response.status}.`);
  return (await response.json()) as T;
}
