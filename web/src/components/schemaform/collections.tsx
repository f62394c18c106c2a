import { Button, Flex, FlexItem, HelperText, HelperTextItem, TextInput } from '@patternfly/react-core';
import { PlusCircleIcon, TrashIcon } from '@patternfly/react-icons';
import { useState } from 'react';

import { isRecord } from '../yamltext';
import { fieldId, useForm } from './context';
import { Field, type NamedProps } from './field';
import { createValue, readSchema, withField } from './schema';

/** ListField edits the items of a list. */
export function ListField({ path, schema, value, onChange, label }: NamedProps) {
  const form = useForm();
  const items: readonly unknown[] = Array.isArray(value) ? value : [];
  const created = createValue(readSchema(schema.items, form.schema), form.schema);
  return (
    <>
      {items.map((item, index) => (
        <Flex key={index} alignItems={{ default: 'alignItemsFlexStart' }} flexWrap={{ default: 'nowrap' }}>
          <FlexItem grow={{ default: 'grow' }}>
            <Field path={[...path, index]} raw={schema.items} value={item} isRequired onChange={(changed) => { onChange(items.with(index, changed ?? created)); }} />
          </FlexItem>
          <FlexItem>
            <Button variant="plain" aria-label={`Remove item ${index + 1} of ${label}`} icon={<TrashIcon />} onClick={() => { onChange(items.toSpliced(index, 1)); }} />
          </FlexItem>
        </Flex>
      ))}
      <div><Button variant="link" icon={<PlusCircleIcon />} onClick={() => { onChange([...items, created]); }}>Add to {label}</Button></div>
    </>
  );
}

/** MapField edits a map from names to values. */
export function MapField({ path, schema, value, onChange, label }: NamedProps) {
  const form = useForm();
  const [name, setName] = useState('');
  const entries = isRecord(value) ? Object.entries(value) : [];
  const isTaken = isRecord(value) && name in value;
  const created = createValue(readSchema(schema.items, form.schema), form.schema);
  const add = () => {
    onChange(withField(value, name, created));
    setName('');
  };
  return (
    <>
      {entries.map(([key, item]) => (
        <Flex key={key} alignItems={{ default: 'alignItemsFlexStart' }} flexWrap={{ default: 'nowrap' }}>
          <FlexItem grow={{ default: 'grow' }}>
            <Field path={[...path, key]} raw={schema.items} value={item} isRequired onChange={(changed) => { onChange(withField(value, key, changed ?? created)); }} />
          </FlexItem>
          <FlexItem>
            <Button variant="plain" aria-label={`Remove ${key} from ${label}`} icon={<TrashIcon />} onClick={() => { onChange(withField(value, key, undefined)); }} />
          </FlexItem>
        </Flex>
      ))}
      <Flex flexWrap={{ default: 'nowrap' }}>
        <FlexItem grow={{ default: 'grow' }}>
          <TextInput
            id={`${fieldId(form, path)}-name`} aria-label={`Name of a new entry of ${label}`} placeholder="Name" value={name} validated={isTaken ? 'error' : 'default'}
            onChange={(_event, text) => { setName(text); }}
          />
        </FlexItem>
        <FlexItem><Button variant="link" icon={<PlusCircleIcon />} isDisabled={name === '' || isTaken} onClick={add}>Add to {label}</Button></FlexItem>
      </Flex>
      {isTaken && <HelperText><HelperTextItem variant="error">There is an entry with this name.</HelperTextItem></HelperText>}
    </>
  );
}
