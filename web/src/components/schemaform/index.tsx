import { Form, FormAlert, Alert } from '@patternfly/react-core';
import { useId, useMemo } from 'react';

import type { Fault } from '../yamltext';
import { FormContext, type FormState } from './context';
import { readDescriptors, type Descriptor } from './descriptors';
import { Field, ObjectFields } from './field';
import { readSchema } from './schema';

export type { Descriptor, Reference } from './descriptors';

interface SchemaFormProps {
  /** schema is a JSON schema or the structural schema of a CRD. */
  schema: unknown;
  value: unknown;
  onChange: (value: unknown) => void;
  /** descriptors say how fields are shown. Their paths begin at the value. */
  descriptors?: readonly Descriptor[];
  /** faults are shown at the fields that they concern. */
  faults?: readonly Fault[];
  /** isPart means that the form is inside of another one, whose buttons send it. */
  isPart?: boolean;
  /** listNames returns the names of the objects of a kind, for fields that name one. */
  listNames?: FormState['listNames'];
}

const none: readonly never[] = [];

/** SchemaForm is a form for a value with a schema. It changes only what the user edits: fields that it does not show stay as they are. */
export function SchemaForm({ schema, value, onChange, descriptors = none, faults = none, isPart = false, listNames }: SchemaFormProps) {
  const id = useId();
  const hints = useMemo(() => readDescriptors(descriptors), [descriptors]);
  const form = useMemo(() => ({ id, schema, value, hints, faults, listNames }), [id, schema, value, hints, faults, listNames]);
  const root = readSchema(schema, schema);
  const general = findGeneralFaults(faults, root.kind === 'object' ? Object.keys(root.properties) : undefined);
  const fields = (
    <>
      {general.length > 0 && <FormAlert><Alert isInline variant="danger" title={general.join(' ')} /></FormAlert>}
      {root.kind === 'object' ? <ObjectFields path={[]} schema={root} value={value} onChange={onChange} /> : <Field path={[]} raw={schema} value={value} onChange={onChange} isRequired />}
      {root.hasMore && <p className="mainstay-message">Further fields are possible in YAML.</p>}
    </>
  );
  return (
    <FormContext value={form}>
      {isPart ? <div className="pf-v6-c-form">{fields}</div> : <Form onSubmit={(event) => { event.preventDefault(); }}>{fields}</Form>}
    </FormContext>
  );
}

/** findGeneralFaults returns the faults that belong to no field of the form. */
function findGeneralFaults(faults: readonly Fault[], names: readonly string[] | undefined): string[] {
  return faults.filter(({ path: [first] }) => first === undefined || (names !== undefined && !names.includes(String(first)))).map(({ path, message }) => [path.join('.'), message].filter((part) => part !== '').join(': '));
}
