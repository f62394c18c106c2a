import { Button, ExpandableSection, FormFieldGroup, FormFieldGroupHeader, FormGroup, FormGroupLabelHelp, FormHelperText, HelperText, HelperTextItem, Popover } from '@patternfly/react-core';
import { useState, type ReactNode } from 'react';

import { isRecord, type Path } from '../yamltext';
import { ListField, MapField } from './collections';
import { faultsAt, faultsBelow, fieldId, useForm } from './context';
import { groupFields, isVisible, keyOf, type Hint } from './descriptors';
import { ScalarInput } from './inputs';
import { ResourceInput } from './resources';
import { formatScalar, readSchema, withField, type Schema } from './schema';
import { YamlInput } from './yamlinput';

/** FieldProps are a value with its schema and its place. */
export interface FieldProps {
  path: Path;
  /** raw is the schema of the value, before it is read. */
  raw: unknown;
  value: unknown;
  /** onChange sets the value. Undefined removes it. */
  onChange: (value: unknown) => void;
  isRequired?: boolean;
}

/** NamedProps are those of a field whose schema has been read. */
export interface NamedProps extends Omit<FieldProps, 'raw'> {
  schema: Schema;
  hint: Hint | undefined;
  label: string;
}

/** Field edits a value. */
export function Field({ path, raw, value, onChange, isRequired = false }: FieldProps) {
  const form = useForm();
  const hint = form.hints.get(keyOf(path));
  if (!isVisible(hint, path, form.value)) return null;

  const schema = readSchema(raw, form.schema);
  const last = path.at(-1);
  const label = typeof last === 'number' ? `Item ${last + 1}` : (hint?.displayName ?? schema.title ?? last ?? '');
  const props = { path, schema, value, onChange, isRequired, hint, label };
  if (hint?.widgets.has('resourceRequirements') === true && schema.kind === 'object') return <Labelled {...props}><ResourceInput {...props} /></Labelled>;
  switch (schema.kind) {
    case 'object': return <ObjectField {...props} />;
    case 'list': return <Group {...props}><ListField {...props} /></Group>;
    case 'map': return <Group {...props}><MapField {...props} /></Group>;
    case 'yaml': return <Labelled {...props}><YamlInput {...props} /></Labelled>;
    default: return <Labelled {...props}><ScalarInput {...props} /></Labelled>;
  }
}

/** Labelled adds label, description, default and faults to an input. */
function Labelled({ path, schema, hint, label, value, onChange, isRequired, children }: NamedProps & { children: ReactNode }) {
  const form = useForm();
  const description = hint?.description ?? schema.description;
  const faults = faultsAt(form.faults, path);
  const defaultText = schema.defaultValue === undefined ? '' : `Default: ${formatScalar(schema.defaultValue)}`;
  return (
    <FormGroup label={label} fieldId={fieldId(form, path)} isRequired={isRequired === true} labelHelp={<FieldHelp path={path} label={label} description={description} />}>
      {children}
      <FormHelperText>
        <HelperText>
          {faults.map((fault) => <HelperTextItem key={fault} variant="error">{fault}</HelperTextItem>)}
          {(description !== '' || defaultText !== '') && <HelperTextItem>{[summarize(description), defaultText].filter((text) => text !== '').join(' ')}</HelperTextItem>}
        </HelperText>
      </FormHelperText>
      {isRequired !== true && value !== undefined && <Button variant="link" isInline size="sm" onClick={() => { onChange(undefined); }} aria-label={`Remove the value of ${label}`}>Remove the value</Button>}
    </FormGroup>
  );
}

const maxSummary = 160;

/** summarize returns the first sentence of a description, shortened if it is long. */
export function summarize(description: string): string {
  const sentence = /^.*?[.!?](?=\s|$)/s.exec(description)?.[0] ?? description;
  const text = sentence.replace(/\s+/g, ' ').trim();
  return text.length <= maxSummary ? text : `${text.slice(0, maxSummary)}…`;
}

function FieldHelp({ path, label, description }: { path: Path; label: string; description: string }) {
  return (
    <Popover headerContent={label} bodyContent={<><p className="mainstay-text">{description}</p><p>Field: <code>{path.join('.')}</code></p></>}>
      <FormGroupLabelHelp aria-label={`More about ${label}`} />
    </Popover>
  );
}

/** Group is a list, a map or an object with a heading that can be folded. It is open if it has a value, must have one, or has a fault. */
function Group({ path, schema, hint, label, value, isRequired, onChange, children }: NamedProps & { children: ReactNode }) {
  const form = useForm();
  const [isChosen, setChosen] = useState<boolean>();
  const faults = faultsAt(form.faults, path);
  const isOpen = isChosen ?? (value !== undefined || isRequired === true || faultsBelow(form.faults, path).length > 0);
  const description = summarize(hint?.description ?? schema.description);
  const heading = isRequired === true && typeof path.at(-1) === 'string' ? `${label} (required)` : label;
  return (
    <ExpandableSection toggleText={heading} isExpanded={isOpen} onToggle={(_event, open) => { setChosen(open); }} isIndented displaySize="lg">
      {isOpen && (
        <FormFieldGroup
          aria-label={label}
          header={(
            <FormFieldGroupHeader
              titleText={{ text: <span className="pf-v6-screen-reader">{label}</span>, id: `${fieldId(form, path)}-title` }} titleDescription={description}
              actions={isRequired !== true && value !== undefined ? <Button variant="link" size="sm" onClick={() => { onChange(undefined); }}>Remove {label}</Button> : undefined}
            />
          )}
        >
          {faults.length > 0 && <HelperText>{faults.map((fault) => <HelperTextItem key={fault} variant="error">{fault}</HelperTextItem>)}</HelperText>}
          {children}
        </FormFieldGroup>
      )}
    </ExpandableSection>
  );
}

function ObjectField(props: NamedProps) {
  const { path, schema, value, onChange } = props;
  return <Group {...props}><ObjectFields path={path} schema={schema} value={value} onChange={onChange} /></Group>;
}

/** maxShort is the number of optional fields of a short item of a list. */
const maxShort = 3;

/** ObjectFields edits the fields of an object. Those that are optional and have no value are folded. */
export function ObjectFields({ path, schema, value, onChange }: { path: Path; schema: Schema; value: unknown; onChange: (value: unknown) => void }) {
  const form = useForm();
  // A field stays where it was when the form was opened, so that it does not move while somebody writes into it.
  const [groups] = useState(() => groupFields(Object.keys(schema.properties), schema.required, form.hints, path, value));
  // A form of which everything is folded looks empty, and a short item of a list, such as an environment variable, is shown whole.
  const isWhole = (path.length === 0 && groups.main.length === 0) || (typeof path.at(-1) === 'number' && groups.more.length <= maxShort);
  const renderField = (name: string) => (
    <Field
      key={name} path={[...path, name]} raw={schema.properties[name]} value={isRecord(value) ? value[name] : undefined} isRequired={schema.required.includes(name)}
      onChange={(field) => { onChange(withField(value, name, field)); }}
    />
  );
  return (
    <>
      {groups.main.map(renderField)}
      {isWhole ? groups.more.map(renderField) : <Folded title="More fields" path={path} names={groups.more} renderField={renderField} />}
      <Folded title="Advanced" path={path} names={groups.advanced} renderField={renderField} />
    </>
  );
}

function Folded({ title, path, names, renderField }: { title: string; path: Path; names: readonly string[]; renderField: (name: string) => ReactNode }) {
  const form = useForm();
  const [isChosen, setChosen] = useState<boolean>();
  if (names.length === 0) return null;
  const isOpen = isChosen ?? names.some((name) => faultsBelow(form.faults, [...path, name]).length > 0);
  return (
    <ExpandableSection toggleText={`${title} (${names.length})`} isExpanded={isOpen} onToggle={(_event, open) => { setChosen(open); }}>
      {isOpen && names.map(renderField)}
    </ExpandableSection>
  );
}
