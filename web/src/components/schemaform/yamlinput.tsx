import { HelperText, HelperTextItem } from '@patternfly/react-core';
import { useState } from 'react';

import { YamlEditor } from '../yaml';
import { formatYaml, isSame, parseYaml } from '../yamltext';
import { faultsBelow, useForm } from './context';
import type { NamedProps } from './field';

/** YamlInput edits a value that has no schema, or one that the form does not understand. */
export function YamlInput({ path, value, onChange, label }: NamedProps) {
  const form = useForm();
  const [text, setText] = useState(() => (value === undefined ? '' : formatYaml(value)));
  const parsed = parseYaml(text);
  const shown = parsed.error !== undefined || isSame(parsed.value ?? undefined, value) ? text : value === undefined ? '' : formatYaml(value);
  const change = (written: string) => {
    setText(written);
    const result = parseYaml(written);
    if (result.error === undefined) onChange(result.value ?? undefined);
  };
  return (
    <>
      <YamlEditor label={`${label} as YAML`} value={shown} onChange={change} faults={faultsBelow(form.faults, path).map((fault) => ({ ...fault, path: fault.path.slice(path.length) }))} />
      {parsed.error !== undefined && <HelperText><HelperTextItem variant="error">{parsed.error}</HelperTextItem></HelperText>}
    </>
  );
}
