import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

/** Settings describe the cluster and the console that test/console has started. */
interface Settings {
  /** Address is that of the console. */
  Address: string;
  Kubeconfig: string;
  Kubectl: string;
  /** Program is mainstay. */
  Program: string;
  /** Images is where images are pushed to. */
  Images: string;
  /** Control cuts the way of the console to the API server. */
  Control: string;
  Tokens: Record<string, string>;
}

/** User is a user of the cluster: an administrator, one who may change everything of OLM Classic in team-a, and one without rights. */
export type User = 'admin' | 'tenant' | 'nobody' | 'leaver';

const text = process.env['CONSOLE_E2E'];
if (text === undefined) throw new Error("the specs are run by 'make e2e-console'");
const settings = JSON.parse(text) as Settings;

/** address is that of the console. */
export const address = settings.Address;

/** tokenOf returns the bearer token of a user. */
export function tokenOf(user: User): string {
  const token = settings.Tokens[user];
  if (token === undefined) throw new Error(`there is no token of ${user}`);
  return token;
}

/** kubectl runs kubectl as the administrator, and returns its output. */
export async function kubectl(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(settings.Kubectl, args, { env: { ...process.env, KUBECONFIG: settings.Kubeconfig } });
  return stdout;
}

/** apply creates or changes an object. */
export async function apply(object: object): Promise<void> {
  const running = promisify(execFile)(settings.Kubectl, ['apply', '-f', '-'], { env: { ...process.env, KUBECONFIG: settings.Kubeconfig } });
  running.child.stdin?.end(JSON.stringify(object));
  await running;
}

/** mainstay runs mainstay as the administrator, and returns its output. */
export async function mainstay(...args: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(settings.Program, args, { env: { ...process.env, KUBECONFIG: settings.Kubeconfig, NO_COLOR: '1' } });
  return stdout;
}

/** writeCatalog writes a file-based catalog to a new directory. It returns the directory. */
export async function writeCatalog(blobs: readonly object[]): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'mainstay-e2e-catalog-'));
  await writeFile(path.join(folder, 'catalog.json'), blobs.map((blob) => JSON.stringify(blob)).join('\n'));
  return folder;
}

/** pushCatalog builds and pushes the image of a file-based catalog. It returns the image. */
export async function pushCatalog(name: string, blobs: readonly object[]): Promise<string> {
  const folder = await writeCatalog(blobs);
  const image = `${settings.Images}/${name}:latest`;
  await mainstay('catalog', 'build', folder, '--push', image);
  await rm(folder, { recursive: true });
  return image;
}

/** addCatalog adds a file-based catalog to the cluster. The returned function removes it. */
export async function addCatalog(name: string, blobs: readonly object[]): Promise<() => Promise<void>> {
  const image = await pushCatalog(name, blobs);
  await mainstay('catalog', 'add', name, '--image', image, '--poll-interval', '1h', '--wait');
  return async () => { await kubectl('delete', 'clustercatalog', name); };
}

/** PackageText is what the author of a package writes. */
export interface PackageText {
  displayName: string;
  description: string;
  icon?: string;
  provider?: string;
  keywords?: string[];
  labels?: Record<string, string>;
}

/** packageBlobs returns a package with one version in one channel. */
export function packageBlobs(name: string, { displayName, description, icon, provider = 'Nobody', keywords = [], labels = {} }: PackageText): object[] {
  const bundle = `${name}.v1.0.0`;
  return [
    { schema: 'olm.package', name, defaultChannel: 'stable', description, ...(icon !== undefined && { icon: { base64data: btoa(icon), mediatype: 'image/svg+xml' } }) },
    { schema: 'olm.channel', package: name, name: 'stable', entries: [{ name: bundle }] },
    {
      schema: 'olm.bundle', package: name, name: bundle, image: `registry.example.com/${name}@sha256:${'0'.repeat(64)}`,
      properties: [
        { type: 'olm.package', value: { packageName: name, version: '1.0.0' } },
        { type: 'olm.csv.metadata', value: { displayName, description, keywords, labels, provider: { name: provider }, installModes: [{ type: 'AllNamespaces', supported: true }] } },
      ],
    },
  ];
}

/** setAPIServer cuts or opens the way of the console to the API server. */
export async function setAPIServer(state: 'up' | 'down'): Promise<void> {
  const response = await fetch(`${settings.Control}/${state}`, { method: 'POST' });
  if (!response.ok) throw new Error(`the API server cannot be ${state}: ${response.statusText}`);
}
