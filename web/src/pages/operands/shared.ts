import { useQuery } from '@tanstack/react-query';
import { useParams } from 'react-router';

import { api, unwrap, type Schemas } from '../../api/client';
import type { Reference } from '../../components/schemaform';
import { readDescriptors, type Hint } from '../../components/schemaform/descriptors';
import { getAt } from '../../components/schemaform/schema';
import { isRecord, type Fault, type Path } from '../../components/yamltext';

/** ResourcePath is a kind of custom resources, as it is in addresses. */
export interface ResourcePath {
  group: string;
  version: string;
  plural: string;
}

/** useResource returns the kind in the address. */
export function useResource(): ResourcePath {
  const { group = '', version = '', plural = '' } = useParams();
  return { group, version, plural };
}

/** liveKind returns the name of a kind in the stream of changes. */
export function liveKind({ group, version, plural }: ResourcePath): string {
  return `${plural}.${version}.${group}`;
}

/** listAddress returns the address of the list of a kind. */
export function listAddress({ group, version, plural }: ResourcePath, namespace: string): string {
  return `/operands/${group}/${version}/${plural}${namespace === '' ? '' : `?namespace=${encodeURIComponent(namespace)}`}`;
}

/** objectAddress returns the address of a custom resource. */
export function objectAddress({ group, version, plural }: ResourcePath, namespace: string, name: string): string {
  return `/operands/${group}/${version}/${plural}/objects/${encodeURIComponent(name)}${namespace === '' ? '' : `?namespace=${encodeURIComponent(namespace)}`}`;
}

/** editAddress returns the address of the page that edits an object as form and YAML. */
export function editAddress(resource: ResourcePath, namespace: string, name: string): string {
  return objectAddress(resource, namespace, name).replace(/(\?|$)/, '/edit$1');
}

/** subscriptions and extensions are kinds that have pages of their own. */
export const subscriptions: ResourcePath = { group: 'operators.coreos.com', version: 'v1alpha1', plural: 'subscriptions' };
export const extensions: ResourcePath = { group: 'olm.operatorframework.io', version: 'v1', plural: 'clusterextensions' };

/** pageAddress returns the address of the page about an object: its own one, or that of custom resources. */
export function pageAddress(resource: ResourcePath, namespace: string, name: string): string {
  switch (`${resource.plural}.${resource.group}`) {
    case `${subscriptions.plural}.${subscriptions.group}`: return `/installed/subscriptions/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}?tab=yaml`;
    case `${extensions.plural}.${extensions.group}`: return `/installed/extensions/${encodeURIComponent(name)}?tab=yaml`;
    default: return objectAddress(resource, namespace, name);
  }
}

/** createAddress returns the address of the page that creates a custom resource. */
export function createAddress({ group, version, plural }: ResourcePath, namespace: string): string {
  return `/operands/${group}/${version}/${plural}/create${namespace === '' ? '' : `?namespace=${encodeURIComponent(namespace)}`}`;
}

/** useDefinition reads schema, descriptors and examples of a kind. They change only with the operator. */
export function useDefinition(resource: ResourcePath, namespace: string) {
  return useQuery({
    queryKey: ['live', 'clusterserviceversions', 'definition', resource, namespace], staleTime: 5 * 60_000,
    queryFn: () => unwrap(api.GET('/api/v1/operands/{group}/{version}/{plural}/definition', { params: { path: resource, query: { namespace } } })),
  });
}

const verbs = ['create', 'update', 'delete'] as const;

/** Access says what the user may do. It is false until it is known. */
export type Access = Readonly<Record<(typeof verbs)[number], boolean>>;

/** useAccess returns what the user may do with objects of a kind. */
export function useAccess({ group, plural }: ResourcePath, namespace: string, name = ''): Access {
  const review = useQuery({
    queryKey: ['access', group, plural, namespace, name],
    queryFn: () => unwrap(api.POST('/api/v1/access', { body: { permissions: verbs.map((verb) => ({ verb, group, resource: plural, namespace, ...(verb !== 'create' && { name }) })) } })),
  });
  const isAllowed = (index: number) => review.data?.allowed[index] === true;
  return { create: isAllowed(0), update: isAllowed(1), delete: isAllowed(2) };
}

/** missingPermission says which permission a user lacks. */
export function missingPermission(verb: string, { group, plural }: ResourcePath, namespace: string): string {
  return `You need the permission to ${verb} ${plural}.${group}${namespace === '' ? ' in the whole cluster' : ` in namespace ${namespace}`}.`;
}

/** listNames returns the names of objects, for fields that name one. */
export function listNames(namespace: string) {
  return async ({ group, version, kind }: Reference): Promise<readonly string[]> =>
    (await unwrap(api.GET('/api/v1/names', { params: { query: { namespace, group, version, kind } } }))).names;
}

/** toFaults returns the faults of the API server for an editor or a form. Indexes are numbers. */
export function toFaults(faults: readonly Schemas['OperandFault'][]): Fault[] {
  return faults.map(({ path, message }) => ({ message, path: path.map((step) => (/^\d+$/.test(step) ? Number(step) : step)) }));
}

/** faultsWithin returns the faults below a field, relative to it. */
export function faultsWithin(faults: readonly Fault[], field: string): Fault[] {
  return faults.filter(({ path: [first] }) => first === field).map(({ path, message }) => ({ message, path: path.slice(1) }));
}

/** Column is a column of a list for a status descriptor. */
export interface Column {
  title: string;
  path: Path;
}

const maxColumns = 4;

/** chooseColumns returns the status descriptors that are columns: single values, and not what the state already says. */
export function chooseColumns(descriptors: readonly Schemas['OperandDescriptor'][]): Column[] {
  return [...readDescriptors(descriptors).values()]
    .filter(({ widgets }) => !['hidden', 'conditions', 'phase', 'reason', 'password', 'podStatuses'].some((name) => widgets.has(name)))
    .slice(0, maxColumns)
    .map(({ displayName, path }) => ({ path, title: displayName ?? String(path.at(-1) ?? '') }));
}

/** sortHints returns the hints for the fields of an object that are shown, in their order. A field for the whole status comes first. */
export function sortHints(descriptors: readonly Schemas['OperandDescriptor'][]): Hint[] {
  const isStatus = ({ path, displayName }: Hint) => (path.length === 1 && path[0] === 'status') || displayName === 'Status';
  return [...readDescriptors(descriptors).values()].filter(({ widgets }) => !widgets.has('hidden')).toSorted((a, b) => Number(isStatus(b)) - Number(isStatus(a)));
}

export const mask = '••••••••';

/** maskSecrets returns an object in which the values of passwords are not readable. */
export function maskSecrets(object: Record<string, unknown>, descriptors: readonly Schemas['OperandDescriptor'][]): Record<string, unknown> {
  const secrets = [...readDescriptors(descriptors).values()].filter(({ widgets }) => widgets.has('password')).map(({ path }) => ['spec', ...path]);
  return secrets.reduce<Record<string, unknown>>((masked, path) => maskAt(masked, path) as Record<string, unknown>, hideLastApplied(object, secrets.length > 0));
}

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration';

/** hideLastApplied masks the annotation in which kubectl keeps a copy of the object. */
function hideLastApplied(object: Record<string, unknown>, hasSecrets: boolean): Record<string, unknown> {
  const path = ['metadata', 'annotations', lastApplied];
  return hasSecrets && getAt(object, path) !== undefined ? maskAt(object, path) as Record<string, unknown> : object;
}

function maskAt(value: unknown, path: Path): unknown {
  const [first, ...rest] = path;
  if (first === undefined) return value === undefined ? undefined : mask;
  if (Array.isArray(value)) return value.map((item: unknown) => maskAt(item, rest));
  if (!isRecord(value) || value[String(first)] === undefined) return value;
  return { ...value, [String(first)]: maskAt(value[String(first)], rest) };
}

/** withoutStatus returns what a user can edit. The operator writes the status. */
export function withoutStatus(object: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([field]) => field !== 'status'));
}

/** newObject returns the object that a person begins with: an example of the operator, or one with the required fields. */
export function newObject({ kind, namespaced, examples }: Schemas['OperandDefinition'], { group, version }: ResourcePath, namespace: string, example: number): Record<string, unknown> {
  const sample = examples[example] ?? { metadata: {}, spec: {} };
  const metadata = isRecord(sample['metadata']) ? sample['metadata'] : {};
  const named = { ...metadata, name: typeof metadata['name'] === 'string' ? metadata['name'] : '' };
  const placed = namespaced ? { ...named, namespace: namespace === '' ? (metadata['namespace'] ?? 'default') : namespace } : named;
  const content = Object.entries(sample).filter(([field]) => !['apiVersion', 'kind', 'metadata', 'status'].includes(field));
  return { apiVersion: `${group}/${version}`, kind, metadata: placed, ...Object.fromEntries(content) };
}
