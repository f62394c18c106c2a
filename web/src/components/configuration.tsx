import { Alert, Button, Stack, StackItem, ToggleGroup, ToggleGroupItem } from '@patternfly/react-core';
import { useState } from 'react';

import type { Schemas } from '../api/client';
import { Help } from './field';
import { SchemaForm } from './schemaform';
import { YamlEditor } from './yaml';
import { parseObject, updateYaml, type Fault } from './yamltext';

interface ConfigurationEditorProps {
  /** text is the configuration as YAML. It is the only copy: the form changes it in place, so that comments stay. */
  text: string;
  onChange: (text: string) => void;
  /** bundle is what the bundle or operator accepts. */
  bundle: Pick<Schemas['ExtensionConfig'], 'bundle' | 'schema' | 'unknown'>;
  /** faults are shown at their fields. */
  faults: readonly Fault[];
}

/** ConfigurationEditor edits the configuration of a bundle or operator by form or as YAML. It is part of a form. */
export function ConfigurationEditor({ text, onChange, bundle, faults }: ConfigurationEditorProps) {
  const [isYaml, setYaml] = useState(false);
  const { schema, unknown } = bundle;
  const isForm = schema !== undefined && !isYaml;
  return (
    <Stack hasGutter>
      {unknown !== undefined && (
        <StackItem><Alert isInline variant="warning" title="There is no form, because the bundle could not be read">{[unknown.detail, unknown.advice].join(' ')}</Alert></StackItem>
      )}
      <StackItem>
        <ToggleGroup aria-label="How to edit the configuration">
          <ToggleGroupItem text="Form" isSelected={isForm} isDisabled={schema === undefined} onChange={() => { setYaml(false); }} />
          <ToggleGroupItem text="YAML" isSelected={!isForm} onChange={() => { setYaml(true); }} />
        </ToggleGroup>
        {bundle.bundle !== undefined && <Help>These are the fields of {bundle.bundle}.</Help>}
      </StackItem>
      <StackItem>
        {isForm
          ? <ConfigurationForm key={bundle.bundle} schema={schema} text={text} onChange={onChange} faults={faults} />
          : <YamlEditor label="Configuration" value={text} onChange={onChange} faults={faults} />}
      </StackItem>
    </Stack>
  );
}

function ConfigurationForm({ schema, text, onChange, faults }: Omit<ConfigurationEditorProps, 'bundle'> & { schema: Record<string, unknown> }) {
  const { value, error } = parseObject(text);
  if (error !== undefined) return <Alert isInline variant="warning" title="The form needs correct YAML">{error}</Alert>;

  const change = (changed: unknown) => {
    const isEmpty = typeof changed === 'object' && changed !== null && Object.keys(changed).length === 0;
    onChange(isEmpty ? '' : updateYaml(text, changed));
  };
  return <SchemaForm isPart schema={schema} value={value} onChange={change} faults={faults} />;
}

/** StaleConfiguration says that the fields are those of another bundle than the chosen one. */
export function StaleConfiguration({ onRead }: { onRead: () => void }) {
  return (
    <Alert isInline isPlain variant="info" title="Another version or catalog has been chosen meanwhile, whose fields may differ.">
      <Button variant="link" isInline onClick={onRead}>Read its fields</Button>
    </Alert>
  );
}
