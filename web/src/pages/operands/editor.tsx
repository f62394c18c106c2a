import { Alert, Button, ExpandableSection, Flex, FlexItem, Form, FormGroup, PageSection, Stack, StackItem, TextInput, ToggleGroup, ToggleGroupItem } from '@patternfly/react-core';
import { useMutation } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { useSearchParams } from 'react-router';

import { api, ApiError, unwrap, type Schemas } from '../../api/client';
import { SchemaForm } from '../../components/schemaform';
import { formatScalar, getAt, withField } from '../../components/schemaform/schema';
import { ProblemAlert } from '../../components/states';
import { YamlDifference, YamlEditor } from '../../components/yaml';
import { formatYaml, isRecord, isSame, parseYaml, updateYaml, type Fault } from '../../components/yamltext';
import { faultsWithin, listNames, maskSecrets, toFaults, withoutStatus, type ResourcePath } from './shared';

type Definition = Schemas['OperandDefinition'];

interface EditorProps {
  resource: ResourcePath;
  namespace: string;
  definition: Definition;
  /** initial is the object that editing begins with. */
  initial: Record<string, unknown>;
  onWritten: (object: Record<string, unknown>) => void;
  onCancel: () => void;
}

/** useDraft keeps the text that is edited, and asks the API server to check and to write it. */
function useDraft({ resource, initial, onWritten }: EditorProps) {
  const [text, setText] = useState(() => formatYaml(initial));
  const parsed = parseYaml(text);
  const object = isRecord(parsed.value) ? parsed.value : undefined;
  const send = (content: Record<string, unknown>, dryRun: boolean) => unwrap(api.POST('/api/v1/operands/{group}/{version}/{plural}', { params: { path: resource }, body: { object: content, dryRun } }));
  const write = useMutation({
    mutationFn: async (dryRun: boolean) => {
      const outcome = await send(object ?? {}, dryRun);
      // A controller may have written the status meanwhile, which is no conflict.
      if (object === undefined || outcome.current === undefined || !isSameContent(outcome.current, initial)) return outcome;
      return send(withVersionOf(outcome.current, object), dryRun);
    },
    onSuccess: (outcome, dryRun) => { if (!dryRun && outcome.object !== undefined) onWritten(outcome.object); },
  });
  const edit = (changed: string) => {
    setText(changed);
    if (write.isSuccess || write.isError) write.reset();
  };
  const error = parsed.error ?? (object === undefined ? 'The text is no object.' : undefined);
  return { text, edit, object, error, write, faults: toFaults(write.data?.faults ?? []), change: (value: Record<string, unknown>) => { edit(updateYaml(text, value)); } };
}

/** Editor edits a custom resource by form or as YAML. The text is the only copy: the form changes it in place, so that comments stay. */
export function Editor(props: EditorProps) {
  const { definition, initial, onCancel } = props;
  const draft = useDraft(props);
  const [parameters, setParameters] = useSearchParams();
  const hasSchema = isRecord(definition.schema['properties']);
  const isForm = hasSchema && parameters.get('view') !== 'yaml';
  const setView = (view: string) => {
    setParameters((before) => {
      before.set('view', view);
      return before;
    }, { replace: true });
  };
  const isNew = getAt(initial, ['metadata', 'resourceVersion']) === undefined;
  const isReady = draft.error === undefined && !draft.write.isPending;
  return (
    <PageSection isFilled>
      <Stack hasGutter>
        <StackItem>
          <ToggleGroup aria-label="How to edit">
            <ToggleGroupItem text="Form" isSelected={isForm} isDisabled={!hasSchema} onChange={() => { setView('form'); }} />
            <ToggleGroupItem text="YAML" isSelected={!isForm} onChange={() => { setView('yaml'); }} />
          </ToggleGroup>
          {!hasSchema && <p className="mainstay-message">The API server has no schema for this kind, so there is no form.</p>}
        </StackItem>
        <StackItem isFilled>
          {isForm
            ? <FormView {...props} object={draft.object} error={draft.error} faults={draft.faults} isNew={isNew} onChange={draft.change} />
            : <YamlView definition={definition} initial={initial} text={draft.text} faults={draft.faults} onChange={draft.edit} />}
        </StackItem>
        {!isNew && draft.object !== undefined && <StackItem><Changes definition={definition} before={initial} after={draft.object} /></StackItem>}
        <StackItem><Result definition={definition} draft={draft} /></StackItem>
        <StackItem>
          <Flex columnGap={{ default: 'columnGapMd' }}>
            <FlexItem><Button variant="primary" isDisabled={!isReady} isLoading={draft.write.isPending} onClick={() => { draft.write.mutate(false); }}>{isNew ? 'Create' : 'Save'}</Button></FlexItem>
            <FlexItem><Button variant="secondary" isDisabled={!isReady} onClick={() => { draft.write.mutate(true); }}>Check</Button></FlexItem>
            <FlexItem><Button variant="link" onClick={onCancel}>Cancel</Button></FlexItem>
          </Flex>
        </StackItem>
      </Stack>
    </PageSection>
  );
}

/** Result shows what the API server answered: faults, a conflict, a problem, or that everything is well. */
function Result({ definition, draft }: { definition: Definition; draft: ReturnType<typeof useDraft> }) {
  const { write, faults, object, error } = draft;
  if (error !== undefined) return <Alert isInline variant="danger" title={error} />;
  if (write.isError) return <ProblemAlert title="The API server refused this" message={write.error.message} advice={write.error instanceof ApiError ? write.error.advice : undefined} />;
  if (!write.isSuccess) return null;

  const current = write.data.current;
  if (current !== undefined && object !== undefined) return <Conflict definition={definition} current={current} mine={object} onChange={draft.change} />;
  if (faults.length > 0) {
    return (
      <Alert isInline variant="danger" title={faults.length === 1 ? 'The API server refuses one field' : `The API server refuses ${faults.length} fields`}>
        <ul>{faults.map(({ path, message }) => <li key={`${path.join('.')}: ${message}`}>{path.length > 0 && <strong>{path.join('.')}: </strong>}{message}</li>)}</ul>
      </Alert>
    );
  }
  return <Alert isInline variant="success" title="The API server accepts this." />;
}

interface ConflictProps {
  definition: Definition;
  current: Record<string, unknown>;
  mine: Record<string, unknown>;
  onChange: (value: Record<string, unknown>) => void;
}

/** Conflict shows how the object on the cluster differs from the edited one, and lets the user choose. */
function Conflict({ definition, current: found, mine, onChange }: ConflictProps) {
  const current = withoutStatus(found);
  return (
    <Alert isInline variant="warning" title="Somebody else has changed this object">
      <p>Your text differs from the object on the cluster as follows. Nothing has been saved.</p>
      <YamlDifference label="From the object on the cluster to your text" before={formatMasked(definition, current)} after={formatMasked(definition, mine)} />
      <Button variant="secondary" onClick={() => { onChange(current); }}>Discard my changes</Button>{' '}
      <Button variant="warning" onClick={() => { onChange(withVersionOf(current, mine)); }}>Keep my text, and save it over the other change</Button>
    </Alert>
  );
}

/** isSameContent reports whether two versions of an object differ only in what controllers write: the status. */
export function isSameContent(a: Record<string, unknown>, b: Record<string, unknown>): boolean {
  const content = (object: Record<string, unknown>) => withVersionOf({}, withoutStatus(object));
  return isSame(content(a), content(b));
}

/** withVersionOf returns an object with the resource version of another one. */
function withVersionOf(other: Record<string, unknown>, object: Record<string, unknown>): Record<string, unknown> {
  return { ...object, metadata: withField(object['metadata'], 'resourceVersion', getAt(other, ['metadata', 'resourceVersion'])) };
}

function formatMasked(definition: Definition, object: Record<string, unknown>): string {
  return formatYaml(maskSecrets(object, definition.specDescriptors));
}

function Changes({ definition, before, after }: { definition: Definition; before: Record<string, unknown>; after: Record<string, unknown> }) {
  const [isOpen, setOpen] = useState(false);
  if (isSame(before, after)) return <p className="mainstay-message">Nothing is changed yet.</p>;
  return (
    <ExpandableSection toggleText="What changes" isExpanded={isOpen} onToggle={(_event, open) => { setOpen(open); }}>
      {isOpen && <YamlDifference label="Changes" before={formatMasked(definition, before)} after={formatMasked(definition, after)} />}
    </ExpandableSection>
  );
}

interface YamlViewProps {
  definition: Definition;
  initial: Record<string, unknown>;
  text: string;
  faults: readonly Fault[];
  onChange: (text: string) => void;
}

function YamlView({ definition, initial, text, faults, onChange }: YamlViewProps) {
  const [isAgreed, setAgreed] = useState(() => isSame(maskSecrets(initial, definition.specDescriptors), initial));
  if (!isAgreed) {
    return (
      <Alert isInline variant="warning" title="The YAML contains secret values">
        <Button variant="secondary" onClick={() => { setAgreed(true); }}>Show it</Button>
      </Alert>
    );
  }
  return <YamlEditor label={`${definition.kind} as YAML`} value={text} onChange={onChange} faults={faults} />;
}

interface FormViewProps extends EditorProps {
  object: Record<string, unknown> | undefined;
  error: string | undefined;
  faults: readonly Fault[];
  isNew: boolean;
  onChange: (value: Record<string, unknown>) => void;
}

function FormView({ definition, namespace, object, error, faults, isNew, onChange }: FormViewProps) {
  const id = useId();
  if (object === undefined) return <Alert isInline variant="warning" title="The form needs correct YAML">{error}</Alert>;

  const properties = isRecord(definition.schema['properties']) ? definition.schema['properties'] : {};
  const parts = Object.entries(properties).filter(([field]) => field !== 'status').toSorted(([a], [b]) => Number(b === 'spec') - Number(a === 'spec'));
  const setName = (field: string, value: string) => { onChange({ ...object, metadata: withField(object['metadata'], field, value) }); };
  const place = formatScalar(getAt(object, ['metadata', 'namespace']));
  return (
    <Stack hasGutter>
      <StackItem><Form onSubmit={(event) => { event.preventDefault(); }}>
        <FormGroup label="Name" fieldId={`${id}-name`} isRequired>
          <TextInput id={`${id}-name`} isRequired isDisabled={!isNew} value={formatScalar(getAt(object, ['metadata', 'name']))} onChange={(_event, value) => { setName('name', value); }} />
        </FormGroup>
        {definition.namespaced && (
          <FormGroup label="Namespace" fieldId={`${id}-namespace`} isRequired>
            <TextInput id={`${id}-namespace`} isRequired isDisabled={!isNew} value={place} onChange={(_event, value) => { setName('namespace', value); }} />
          </FormGroup>
        )}
      </Form></StackItem>
      {parts.map(([field, schema]) => (
        <StackItem key={field}><SchemaForm
          schema={isRecord(schema) ? { ...schema, components: definition.schema['components'] } : schema} value={object[field]}
          onChange={(value) => { onChange(withField(object, field, value)); }} descriptors={field === 'spec' ? definition.specDescriptors : []}
          faults={faultsWithin(faults, field)} listNames={listNames(place === '' ? namespace : place)}
        /></StackItem>
      ))}
    </Stack>
  );
}
