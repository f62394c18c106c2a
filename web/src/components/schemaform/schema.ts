import { isRecord, type Path } from '../yamltext';

/** Kind is how a value is edited. */
export type Kind = 'text' | 'number' | 'boolean' | 'choice' | 'intOrString' | 'object' | 'list' | 'map' | 'yaml';

export type Scalar = string | number | boolean;

/** Schema is what the form needs of a JSON schema. The schemas of parts are read when they are shown, because schemas can contain themselves. */
export interface Schema {
  kind: Kind;
  title: string | undefined;
  description: string;
  defaultValue: unknown;
  /** options are the values of a choice. */
  options: readonly Scalar[];
  isInteger: boolean;
  minimum: number | undefined;
  maximum: number | undefined;
  maxLength: number | undefined;
  /** properties are the schemas of the fields of an object. */
  properties: Readonly<Record<string, unknown>>;
  required: readonly string[];
  /** items is the schema of the items of a list, or of the values of a map. */
  items: unknown;
  /** hasMore means that objects may have fields that the schema does not name. */
  hasMore: boolean;
}

const maxReferences = 10;

/** readSchema reads a JSON schema or the structural schema of a CRD. What it does not understand is edited as YAML. */
export function readSchema(raw: unknown, root: unknown): Schema {
  const schema = resolveReferences(raw, root);
  const properties = isRecord(schema['properties']) ? schema['properties'] : {};
  const options = Array.isArray(schema['enum']) ? schema['enum'].filter(isScalar) : [];
  const kind = findKind(schema, properties, options);
  return {
    kind, properties, options,
    title: readText(schema['title']), description: readText(schema['description']) ?? '', defaultValue: schema['default'],
    isInteger: listTypes(schema).includes('integer'), minimum: readNumber(schema['minimum']), maximum: readNumber(schema['maximum']), maxLength: readNumber(schema['maxLength']),
    required: Array.isArray(schema['required']) ? schema['required'].filter((name) => typeof name === 'string') : [],
    items: kind === 'list' ? schema['items'] : schema['additionalProperties'],
    hasMore: schema['x-kubernetes-preserve-unknown-fields'] === true || (schema['additionalProperties'] ?? false) !== false,
  };
}

function findKind(schema: Record<string, unknown>, properties: Record<string, unknown>, options: readonly Scalar[]): Kind {
  const types = listTypes(schema);
  if (schema['x-kubernetes-int-or-string'] === true || (types.includes('string') && types.includes('integer'))) return 'intOrString';
  if (options.length > 0) return 'choice';
  if (types.length > 1) return 'yaml';
  switch (types[0]) {
    case 'string': return 'text';
    case 'number': case 'integer': return 'number';
    case 'boolean': return 'boolean';
    case 'array': return isRecord(schema['items']) ? 'list' : 'yaml';
    case 'object': case undefined: break;
    default: return 'yaml';
  }
  if (Object.keys(properties).length > 0) return 'object';
  return types[0] === 'object' && isRecord(schema['additionalProperties']) ? 'map' : 'yaml';
}

/** listTypes returns the types that a value may have, without null. */
function listTypes(schema: Record<string, unknown>): string[] {
  const alternatives = [schema['anyOf'], schema['oneOf']].find((list) => Array.isArray(list)) ?? [];
  const declared = schema['type'] ?? alternatives.map((alternative) => (isRecord(alternative) ? alternative['type'] : undefined));
  const types: unknown[] = Array.isArray(declared) ? declared : [declared];
  return [...new Set(types.filter((type) => typeof type === 'string' && type !== 'null'))] as string[];
}

/** resolveReferences returns a schema without $ref and allOf at its top. */
function resolveReferences(raw: unknown, root: unknown): Record<string, unknown> {
  let schema = isRecord(raw) ? raw : {};
  for (let count = 0; count < maxReferences && typeof schema['$ref'] === 'string'; count++) {
    const { $ref: reference, ...own } = schema;
    schema = { ...findReference(root, reference), ...own };
  }
  if (!Array.isArray(schema['allOf'])) return schema;
  const { allOf: parts, ...own } = schema;
  return (parts as unknown[]).map((part) => (isRecord(part) && 'allOf' in part ? {} : resolveReferences(part, root))).reduceRight<Record<string, unknown>>(
    (merged, part) => ({ ...part, ...merged, ...mergeFields(part, merged) }), own,
  );
}

function mergeFields(a: Record<string, unknown>, b: Record<string, unknown>): Record<string, unknown> {
  if (!isRecord(a['properties']) || !isRecord(b['properties'])) return {};
  const required = [a['required'], b['required']].flatMap((list) => (Array.isArray(list) ? (list as unknown[]) : []));
  return { properties: { ...a['properties'], ...b['properties'] }, required };
}

function findReference(root: unknown, reference: string): Record<string, unknown> {
  if (!reference.startsWith('#/')) return {};
  const steps = reference.slice(2).split('/').map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'));
  const target = steps.reduce<unknown>((value, step) => (isRecord(value) ? value[step] : undefined), root);
  return isRecord(target) ? target : {};
}

function isScalar(value: unknown): value is Scalar {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}

function readText(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function readNumber(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}

/** withField returns an object with another value of a field. Undefined removes the field. */
export function withField(object: unknown, name: string, value: unknown): Record<string, unknown> {
  const before = isRecord(object) ? object : {};
  if (value !== undefined) return { ...before, [name]: value };
  return Object.fromEntries(Object.entries(before).filter(([key]) => key !== name));
}

/** setAt returns an object with a value at a path. Without a value, it has no such field, and no parent that would be empty. */
export function setAt(object: unknown, [first = '', ...rest]: readonly string[], value: unknown): Record<string, unknown> {
  if (rest.length === 0) return withField(object, first, value);
  const child = setAt(getAt(object, [first]), rest, value);
  return withField(object, first, Object.keys(child).length === 0 ? undefined : child);
}

/** getAt returns the value at a path of an object, or undefined. */
export function getAt(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((parent, step) => {
    if (Array.isArray(parent)) return (parent as unknown[])[Number(step)];
    return isRecord(parent) ? parent[String(step)] : undefined;
  }, value);
}

/** createValue returns the value of a new item of a list or map. */
export function createValue({ kind, defaultValue, options, required, properties }: Schema, root: unknown): unknown {
  if (defaultValue !== undefined) return defaultValue;
  switch (kind) {
    case 'text': case 'intOrString': return '';
    case 'number': return 0;
    case 'boolean': return false;
    case 'choice': return options[0];
    case 'list': return [];
    case 'map': case 'yaml': return {};
    case 'object': return Object.fromEntries(required.filter((name) => readSchema(properties[name], root).kind === 'object').map((name) => [name, {}]));
  }
}

/** formatScalar returns a value as a person writes it. */
export function formatScalar(value: unknown): string {
  if (value === undefined || value === null) return '';
  return isScalar(value) ? String(value) : JSON.stringify(value);
}

/** parseIntOrString returns a number for digits, and else the text. An empty text is no value. */
export function parseIntOrString(text: string): string | number | undefined {
  if (text === '') return undefined;
  return /^-?\d{1,15}$/.test(text) ? Number(text) : text;
}
