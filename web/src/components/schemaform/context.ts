import { createContext, useContext } from 'react';

import type { Fault, Path } from '../yamltext';
import type { Hint, Reference } from './descriptors';

/** FormState is what all fields of a form share. */
export interface FormState {
  /** id is the beginning of the ids of the fields. */
  id: string;
  /** schema is the whole schema, which references point into. */
  schema: unknown;
  value: unknown;
  hints: ReadonlyMap<string, Hint>;
  faults: readonly Fault[];
  listNames: ((reference: Reference) => Promise<readonly string[]>) | undefined;
}

export const FormContext = createContext<FormState>({ id: '', schema: {}, value: undefined, hints: new Map(), faults: [], listNames: undefined });

/** useForm returns the form of a field. */
export function useForm(): FormState {
  return useContext(FormContext);
}

/** fieldId returns the id of the input for a path. */
export function fieldId(form: FormState, path: Path): string {
  return [form.id, ...path].join('-');
}

/** isBelow reports whether a path is that of a value, or of something inside of it. */
export function isBelow(path: Path, parent: Path): boolean {
  return parent.every((step, index) => String(path[index]) === String(step));
}

/** faultsAt returns what is wrong with the value at a path itself. */
export function faultsAt(faults: readonly Fault[], path: Path): string[] {
  return faults.filter((fault) => fault.path.length === path.length && isBelow(fault.path, path)).map(({ message }) => message);
}

/** faultsBelow returns what is wrong with the value at a path, or with something inside of it. */
export function faultsBelow(faults: readonly Fault[], path: Path): readonly Fault[] {
  return faults.filter((fault) => isBelow(fault.path, path));
}
