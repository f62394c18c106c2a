import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

/** Settings describe the cluster and the console that test/console has started. */
interface Settings {
  /** Address is that of the console. */
  Address: string;
  Kubeconfig: string;
  Kubectl: string;
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

/** setAPIServer cuts or opens the way of the console to the API server. */
export async function setAPIServer(state: 'up' | 'down'): Promise<void> {
  const response = await fetch(`${settings.Control}/${state}`, { method: 'POST' });
  if (!response.ok) throw new Error(`the API server cannot be ${state}: ${response.statusText}`);
}
