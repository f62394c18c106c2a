import { Button, Checkbox, FormSelect, FormSelectOption, InputGroup, InputGroupItem, NumberInput, Radio, Switch, TextArea, TextInput } from '@patternfly/react-core';
import { EyeIcon, EyeSlashIcon } from '@patternfly/react-icons';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { faultsAt, fieldId, useForm } from './context';
import type { Reference } from './descriptors';
import type { NamedProps } from './field';
import { formatScalar, parseIntOrString, type Scalar } from './schema';

/** ScalarInput edits a text, a number, a boolean or a choice. */
export function ScalarInput(props: NamedProps) {
  const { schema: { kind, options }, hint } = props;
  if (kind === 'boolean') return <BooleanInput {...props} />;
  if (kind === 'choice') return <ChoiceInput {...props} options={options} />;
  if (kind === 'number') return hint?.widgets.has('podCount') === true ? <CountInput {...props} /> : <NumericInput {...props} />;
  if (hint !== undefined && hint.options.length > 0) return <ChoiceInput {...props} options={hint.options} />;
  if (hint?.widgets.has('imagePullPolicy') === true) return <PolicyInput {...props} />;
  if (hint?.widgets.has('password') === true) return <SecretInput {...props} />;
  if (hint?.reference !== undefined) return <NameInput {...props} reference={hint.reference} />;
  return <WrittenInput {...props} />;
}

/** useInput returns what all inputs have in common. */
function useInput({ path, isRequired }: NamedProps) {
  const form = useForm();
  return { id: fieldId(form, path), isRequired: isRequired === true, validated: faultsAt(form.faults, path).length > 0 ? 'error' as const : 'default' as const };
}

function WrittenInput(props: NamedProps) {
  const { schema, value, onChange, label } = props;
  const input = useInput(props);
  const text = formatScalar(value);
  const change = (_event: unknown, written: string) => { onChange(schema.kind === 'intOrString' ? parseIntOrString(written) : emptyToUndefined(written)); };
  if (text.includes('\n')) return <TextArea {...input} aria-label={label} value={text} onChange={change} resizeOrientation="vertical" rows={6} />;
  return <TextInput {...input} value={text} onChange={change} placeholder={formatScalar(schema.defaultValue)} autoComplete="off" {...(schema.maxLength !== undefined && { maxLength: schema.maxLength })} />;
}

function emptyToUndefined(text: string): string | undefined {
  return text === '' ? undefined : text;
}

function NumericInput(props: NamedProps) {
  const { schema, value, onChange } = props;
  return (
    <TextInput
      {...useInput(props)} type="number" value={typeof value === 'number' ? value : ''} placeholder={formatScalar(schema.defaultValue)} step={schema.isInteger ? 1 : 'any'}
      {...limitsOf(props)} onChange={(_event, text) => { onChange(text === '' ? undefined : Number(text)); }}
    />
  );
}

function limitsOf({ schema: { minimum, maximum } }: NamedProps) {
  return { ...(minimum !== undefined && { min: minimum }), ...(maximum !== undefined && { max: maximum }) };
}

function CountInput(props: NamedProps) {
  const { value, schema, onChange, label, path } = props;
  const form = useForm();
  const count = typeof value === 'number' ? value : typeof schema.defaultValue === 'number' ? schema.defaultValue : 0;
  return (
    <NumberInput
      value={count} min={0} {...limitsOf(props)} inputAriaLabel={label} minusBtnAriaLabel={`Fewer: ${label}`} plusBtnAriaLabel={`More: ${label}`} inputProps={{ id: fieldId(form, path) }}
      onMinus={() => { onChange(count - 1); }} onPlus={() => { onChange(count + 1); }} onChange={(event) => { onChange(Number(event.currentTarget.value)); }}
    />
  );
}

function BooleanInput(props: NamedProps) {
  const { value, schema, onChange, label, hint } = props;
  const { id } = useInput(props);
  const isChecked = typeof value === 'boolean' ? value : schema.defaultValue === true;
  const change = (_event: unknown, checked: boolean) => { onChange(checked); };
  if (hint?.widgets.has('booleanSwitch') === true) return <Switch id={id} aria-label={label} isChecked={isChecked} onChange={change} label={isChecked ? 'On' : 'Off'} />;
  return <Checkbox id={id} aria-label={label} isChecked={isChecked} onChange={change} label={isChecked ? 'Yes' : 'No'} />;
}

function ChoiceInput({ options, ...props }: NamedProps & { options: readonly Scalar[] }) {
  const { value, onChange, schema } = props;
  const index = options.findIndex((option) => option === value);
  const isForeign = index < 0 && value !== undefined;
  const unset = schema.defaultValue === undefined ? 'Not set' : `Not set (${formatScalar(schema.defaultValue)})`;
  return (
    <FormSelect {...useInput(props)} value={isForeign ? 'foreign' : index} onChange={(_event, chosen) => { onChange(options[Number(chosen)]); }}>
      <FormSelectOption value={-1} label={unset} />
      {isForeign && <FormSelectOption value="foreign" label={formatScalar(value)} isDisabled />}
      {options.map((option, position) => <FormSelectOption key={formatScalar(option)} value={position} label={formatScalar(option) === '' ? '""' : formatScalar(option)} />)}
    </FormSelect>
  );
}

const pullPolicies = ['Always', 'IfNotPresent', 'Never'] as const;

function PolicyInput(props: NamedProps) {
  const { value, onChange, label } = props;
  const { id } = useInput(props);
  return (
    <div role="radiogroup" aria-label={label} id={id}>
      {pullPolicies.map((policy) => <Radio key={policy} id={`${id}-${policy}`} name={id} label={policy} isChecked={value === policy} onChange={() => { onChange(policy); }} />)}
    </div>
  );
}

function SecretInput(props: NamedProps) {
  const { value, onChange, label } = props;
  const [isShown, setShown] = useState(false);
  return (
    <InputGroup>
      <InputGroupItem isFill>
        <TextInput {...useInput(props)} type={isShown ? 'text' : 'password'} value={formatScalar(value)} autoComplete="off" onChange={(_event, text) => { onChange(emptyToUndefined(text)); }} />
      </InputGroupItem>
      <InputGroupItem>
        <Button variant="control" aria-label={isShown ? `Hide ${label}` : `Show ${label}`} icon={isShown ? <EyeSlashIcon /> : <EyeIcon />} onClick={() => { setShown(!isShown); }} />
      </InputGroupItem>
    </InputGroup>
  );
}

/** NameInput edits the name of an object. It suggests the objects that the user may list. */
function NameInput({ reference, ...props }: NamedProps & { reference: Reference }) {
  const { value, onChange } = props;
  const { listNames } = useForm();
  const input = useInput(props);
  const names = useQuery({
    queryKey: ['names', reference.group, reference.kind, input.id], enabled: listNames !== undefined, retry: false,
    queryFn: () => listNames?.(reference) ?? [],
  });
  return (
    <>
      <TextInput {...input} value={formatScalar(value)} autoComplete="off" list={`${input.id}-names`} placeholder={`Name of a ${reference.kind}`} onChange={(_event, text) => { onChange(emptyToUndefined(text)); }} />
      <datalist id={`${input.id}-names`}>{(names.data ?? []).map((name) => <option key={name} value={name}>{name}</option>)}</datalist>
    </>
  );
}
