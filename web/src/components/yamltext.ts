import { isCollection, isMap, isNode, isPair, isScalar, isSeq, LineCounter, parseDocument, stringify, type Document } from 'yaml';

/** Path is the way to a value in an object: names of fields and indexes of lists. */
export type Path = readonly (string | number)[];

/** Fault is what is wrong with a value, and where. The empty path means the whole object. */
export interface Fault {
  path: Path;
  message: string;
}

/** Mark is a fault at a place of a text, as offsets. */
export interface Mark {
  from: number;
  to: number;
  message: string;
}

/** formatYaml returns a value as YAML. */
export function formatYaml(value: unknown): string {
  return stringify(value, { lineWidth: 0, aliasDuplicateObjects: false });
}

/** Parsed is the value of a text, or the reason why it has none. */
export type Parsed = { value: unknown; error?: undefined } | { value?: undefined; error: string };

/** parseYaml returns the value of a text that is one YAML document. */
export function parseYaml(text: string): Parsed {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false });
  const [error] = document.errors;
  if (error !== undefined) return { error: `Line ${lines.linePos(error.pos[0]).line}: ${error.message}` };
  try {
    return { value: document.toJS() };
  } catch (failure) {
    return { error: failure instanceof Error ? failure.message : String(failure) };
  }
}

/** parseObject returns the object of a text, undefined for an empty text, or the reason why it has none. */
export function parseObject(text: string): { value: Record<string, unknown> | undefined; error?: undefined } | { value?: undefined; error: string } {
  if (text.trim() === '') return { value: undefined };
  const { value, error } = parseYaml(text);
  if (error !== undefined) return { error };
  if (value === null) return { value: undefined };
  return isRecord(value) ? { value } : { error: 'It must be an object.' };
}

/** findManifestFault returns why a text is not an object of a kind, or an empty text. */
export function findManifestFault(text: string, apiVersion: string, kind: string): string {
  const { value, error } = parseObject(text);
  if (error !== undefined) return `The YAML is not valid. ${error}`;
  return value?.['apiVersion'] === apiVersion && value['kind'] === kind ? '' : `The YAML must be a ${kind} of ${apiVersion}.`;
}

/** findMarks returns the places of syntax errors in a text, and those of the faults of its value. */
export function findMarks(text: string, faults: readonly Fault[]): Mark[] {
  const document = parseDocument(text, { prettyErrors: false });
  const syntax = document.errors.map(({ pos: [from, to], message }) => ({ from, to, message }));
  return [...syntax, ...faults.map(({ path, message }) => ({ ...findRange(document, path), message }))].map((mark) => clampMark(mark, text.length));
}

function clampMark({ from, to, message }: Mark, length: number): Mark {
  const start = Math.min(from, length);
  return { from: start, to: Math.min(Math.max(to, start), length), message };
}

/** findRange returns the place of the value at a path, or that of the closest parent that exists. */
function findRange(document: Document, path: Path): { from: number; to: number } {
  let node: unknown = document.contents;
  let range = { from: 0, to: 0 };
  for (const step of path) {
    if (!isCollection(node)) break;
    const pair = isMap(node) ? node.items.find(({ key }) => isScalar(key) && String(key.value) === String(step)) : undefined;
    const child: unknown = isSeq(node) ? node.get(Number(step), true) : pair?.value;
    const place = pair === undefined ? child : pair.key;
    if (!isNode(place) || !place.range) break;
    range = { from: place.range[0], to: place.range[1] };
    node = child;
  }
  return range;
}

/** updateYaml returns a text with a new value. Comments and the order of what has not changed stay as they are. */
export function updateYaml(text: string, value: unknown): string {
  const document = parseDocument(text, { prettyErrors: false });
  if (document.errors.length > 0 || !isMap(document.contents) || !isRecord(value)) return formatYaml(value);
  if (isSame(document.toJS(), value)) return text;
  updateNode(document, [], value);
  return document.toString({ lineWidth: 0 });
}

function updateNode(document: Document, path: Path, value: unknown): void {
  const node = path.length === 0 ? document.contents : document.getIn(path, true);
  if (isMap(node) && isRecord(value)) {
    for (const item of [...node.items]) {
      const key = isPair(item) && isScalar(item.key) ? String(item.key.value) : '';
      if (!(key in value)) node.delete(item.key);
    }
    for (const [key, field] of Object.entries(value)) updateNode(document, [...path, key], field);
    return;
  }
  if (isSeq(node) && Array.isArray(value)) {
    while (node.items.length > value.length) node.delete(node.items.length - 1);
    value.forEach((item, index) => { updateNode(document, [...path, index], item); });
    return;
  }

  const before: unknown = isNode(node) ? node.toJS(document) : node;
  if (node !== undefined && isSame(before, value)) return;
  if (isScalar(node) && !isRecord(value) && !Array.isArray(value)) node.value = value;
  else document.setIn(path, document.createNode(value, { aliasDuplicateObjects: false }));
}

/** isRecord reports whether a value is an object with fields. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** isSame reports whether two values are equal as JSON, whatever the order of their fields. */
export function isSame(a: unknown, b: unknown): boolean {
  if (Array.isArray(a) && Array.isArray(b)) return a.length === b.length && a.every((item, index) => isSame(item, b[index]));
  if (!isRecord(a) || !isRecord(b)) return a === b;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => key in b && isSame(a[key], b[key]));
}
