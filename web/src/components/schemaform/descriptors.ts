import type { Path } from '../yamltext';
import { formatScalar, getAt } from './schema';

/** Descriptor says how a console shows a field. Operators have descriptors in their ClusterServiceVersion. */
export interface Descriptor {
  path: string;
  displayName?: string;
  description?: string;
  'x-descriptors'?: readonly string[];
}

/** Reference is a kind whose objects a field names. */
export interface Reference {
  group: string;
  version: string;
  kind: string;
}

interface Dependency {
  path: Path;
  value: string;
}

/** Hint is a descriptor that has been read. */
export interface Hint {
  /** order is the place among the descriptors. */
  order: number;
  path: Path;
  displayName: string | undefined;
  description: string | undefined;
  /** widgets are the known names of x-descriptors, such as podCount. */
  widgets: ReadonlySet<string>;
  options: readonly string[];
  reference: Reference | undefined;
  dependencies: readonly Dependency[];
}

const interfacePrefix = 'urn:alm:descriptor:com.tectonic.ui:';
const resourcePrefix = 'urn:alm:descriptor:io.kubernetes:';

/** The descriptors of other namespaces, by the name that hints have for them. */
const others: Readonly<Record<string, string>> = {
  'urn:alm:descriptor:io.kubernetes.phase': 'phase',
  'urn:alm:descriptor:io.kubernetes.phase:reason': 'reason',
  'urn:alm:descriptor:io.kubernetes.conditions': 'conditions',
  'urn:alm:descriptor:org.w3:link': 'link',
  'urn:alm:descriptor:prometheusEndpoint': 'link',
  'urn:alm:descriptor:text': 'text',
};

/** parsePath reads a path such as "pools[0].size". */
export function parsePath(path: string): Path {
  return path.replace(/\[(\d+)\]/g, '.$1').split('.').filter((step) => step !== '').map((step) => (/^\d+$/.test(step) ? Number(step) : step));
}

/** keyOf returns the key of a path, which is the same for all items of a list. */
export function keyOf(path: Path): string {
  return path.map((step) => (typeof step === 'number' ? '*' : step)).join('/');
}

/** readDescriptors returns the hints by the key of their path. The first descriptor of a path counts. */
export function readDescriptors(descriptors: readonly Descriptor[]): ReadonlyMap<string, Hint> {
  const hints = new Map<string, Hint>();
  descriptors.forEach((descriptor, order) => {
    const path = parsePath(descriptor.path);
    const key = keyOf(path);
    if (!hints.has(key)) hints.set(key, { order, path, ...readDescriptor(descriptor) });
  });
  return hints;
}

function readDescriptor({ displayName, description, 'x-descriptors': identifiers = [] }: Descriptor): Omit<Hint, 'order' | 'path'> {
  const widgets = new Set<string>();
  const options: string[] = [];
  const dependencies: Dependency[] = [];
  let reference: Reference | undefined;
  for (const identifier of identifiers) {
    const other = others[identifier];
    if (other !== undefined) widgets.add(other);
    else if (identifier.startsWith(resourcePrefix)) reference ??= readReference(identifier.slice(resourcePrefix.length));
    else if (identifier.startsWith(interfacePrefix)) {
      const [name = '', ...parameters] = identifier.slice(interfacePrefix.length).split(':');
      widgets.add(name);
      if (name === 'select') options.push(parameters.join(':'));
      if (name === 'fieldDependency') dependencies.push({ path: parsePath(parameters[0] ?? ''), value: parameters.slice(1).join(':') });
    }
  }
  return { displayName, description, widgets, options, dependencies, reference };
}

function readReference(text: string): Reference | undefined {
  const parts = (text.split('?')[0] ?? '').split(':');
  const kind = parts.at(-1) ?? '';
  if (!/^[A-Z]/.test(kind)) return undefined; // some operators write other words here, such as "text"
  if (parts.length === 1) return { group: '', version: '', kind };
  const group = parts[0] === 'core' ? '' : parts[0];
  return { group: group ?? '', version: parts[1] ?? '', kind };
}

/** isVisible reports whether a field is shown: it is not hidden, and the fields that it depends on have their values. */
export function isVisible(hint: Hint | undefined, path: Path, root: unknown): boolean {
  if (hint === undefined) return true;
  if (hint.widgets.has('hidden')) return false;
  return hint.dependencies.every((dependency) => {
    // In a list, the other field is that of the same item.
    const place = dependency.path.map((step, index) => (typeof step === 'number' && typeof path[index] === 'number' ? path[index] : step));
    return formatScalar(getAt(root, place)) === dependency.value;
  });
}

/** FieldGroups are the fields of an object in their order: those that are shown, and those that are folded. */
export interface FieldGroups {
  main: string[];
  more: string[];
  advanced: string[];
}

/** groupFields orders the fields of an object: required fields, then those with descriptors in their order, then by name. Fields that have a value are shown. */
export function groupFields(names: readonly string[], required: readonly string[], hints: ReadonlyMap<string, Hint>, path: Path, value: unknown): FieldGroups {
  const hintOf = (name: string) => hints.get(keyOf([...path, name]));
  const orderOf = (name: string) => descriptorOrder(hints, [...path, name]);
  const rank = (name: string) => (orderOf(name) < Infinity ? 1 : required.includes(name) ? 0 : 2);
  const sorted = names.toSorted((a, b) => rank(a) - rank(b) || compareNumbers(orderOf(a), orderOf(b)) || a.localeCompare(b, 'en'));
  const groups: FieldGroups = { main: [], more: [], advanced: [] };
  for (const name of sorted) {
    const isAdvanced = hintOf(name)?.widgets.has('advanced') === true && !required.includes(name);
    const isMain = required.includes(name) || orderOf(name) < Infinity || getAt(value, [name]) !== undefined;
    groups[isAdvanced ? 'advanced' : isMain ? 'main' : 'more'].push(name);
  }
  return groups;
}

/** descriptorOrder returns the place of a field among the descriptors: its own, or that of the first field inside of it. */
function descriptorOrder(hints: ReadonlyMap<string, Hint>, path: Path): number {
  const key = keyOf(path);
  let order = Infinity;
  for (const [other, hint] of hints) {
    if (other === key || other.startsWith(`${key}/`)) order = Math.min(order, hint.order);
  }
  return order;
}

function compareNumbers(a: number, b: number): number {
  return a === b ? 0 : a < b ? -1 : 1;
}
