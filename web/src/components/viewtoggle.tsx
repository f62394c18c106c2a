import { ToggleGroup, ToggleGroupItem } from '@patternfly/react-core';

import { parseObject } from './yamltext';

interface ViewToggleProps {
  /** label is what the views edit, for screen readers. */
  label: string;
  isYaml: boolean;
  /** text is the YAML that the present view edits. While it has errors, the view cannot be left. */
  text: string;
  onChange: (isYaml: boolean) => void;
}

/** ViewToggle switches between the form and the YAML of the same object. */
export function ViewToggle({ label, isYaml, text, onChange }: ViewToggleProps) {
  const isBroken = parseObject(text).error !== undefined;
  return (
    <ToggleGroup aria-label={label}>
      <ToggleGroupItem text="Form view" isSelected={!isYaml} isDisabled={isYaml && isBroken} onChange={() => { if (isYaml) onChange(false); }} />
      <ToggleGroupItem text="YAML view" isSelected={isYaml} isDisabled={!isYaml && isBroken} onChange={() => { if (!isYaml) onChange(true); }} />
    </ToggleGroup>
  );
}
