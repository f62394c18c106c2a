import { Alert, FormGroup, FormHelperText, FormSelect, FormSelectOption, HelperText, HelperTextItem, Radio, TextInput } from '@patternfly/react-core';
import { useState, type ReactNode } from 'react';

import { api, unwrap } from '../../api/client';
import { ConfirmDialog } from '../../components/confirm';
import { describePermission, useMissingPermissions } from '../../components/permissions';
import { useWrite } from '../cluster/data';
import { parseMinutes, permissionOn, type Source } from './data';

const intervals = [10, 15, 30, 45, 60, 1440] as const;

interface FieldProps { id: string; label: string; value: string; onChange: (value: string) => void; help?: ReactNode; type?: 'text' | 'number'; isRequired?: boolean }

function Field({ id, label, value, onChange, help, type = 'text', isRequired = false }: FieldProps) {
  return (
    <FormGroup label={label} fieldId={id} isRequired={isRequired}>
      <TextInput id={id} type={type} value={value} isRequired={isRequired} spellCheck="false" onChange={(_event, text) => { onChange(text.trim()); }} />
      {help !== undefined && <FormHelperText><HelperText><HelperTextItem>{help}</HelperTextItem></HelperText></FormHelperText>}
    </FormGroup>
  );
}

function IntervalField({ minutes, onChange }: { minutes: number; onChange: (minutes: number) => void }) {
  const known: readonly number[] = intervals;
  const offered = minutes === 0 || known.includes(minutes) ? known : [minutes, ...known];
  return (
    <FormGroup label="Look for new content" fieldId="interval">
      <FormSelect id="interval" value={String(minutes)} onChange={(_event, value) => { onChange(Number(value)); }}>
        <FormSelectOption value="0" label="Never" />
        {offered.map((m) => <FormSelectOption key={m} value={String(m)} label={m === 1440 ? 'Every day' : `Every ${m} minutes`} />)}
      </FormSelect>
    </FormGroup>
  );
}

/** EditDialog changes image, priority and poll interval of a catalog. */
export function EditDialog({ source, onClose }: { source: Source; onClose: () => void }) {
  const { name, namespace = '', revision = '' } = source;
  const [image, setImage] = useState(source.image ?? '');
  const [priority, setPriority] = useState(String(source.priority));
  const before = parseMinutes(source.pollInterval);
  const [minutes, setMinutes] = useState(before);
  const hasDigest = image.includes('@');
  const polled = hasDigest ? 0 : minutes;
  const save = useWrite(() => unwrap(api.POST('/api/v1/sources/{name}/settings', {
    params: { path: { name }, query: { namespace } },
    body: {
      revision, priority: Number(priority), ...(image === (source.image ?? '') ? {} : { image }), ...(polled === before ? {} : { pollMinutes: polled }),
    },
  })), onClose);
  const isChanged = image !== (source.image ?? '') || Number(priority) !== source.priority || polled !== before;
  return (
    <ConfirmDialog title={`Edit ${name}`} action="Save" isDisabled={!isChanged || !isPriority(priority)} isPending={save.isPending} error={save.error} onConfirm={() => { save.mutate(undefined); }} onClose={onClose}>
      {source.image !== undefined && <Field id="image" label="Image" value={image} onChange={setImage} isRequired help="Extensions and operators are updated to what the new image offers." />}
      <Field id="priority" label="Priority" type="number" value={priority} onChange={setPriority} help="Of several catalogs with the same package, that with the highest priority is used." />
      {source.image !== undefined && !hasDigest && <IntervalField minutes={minutes} onChange={setMinutes} />}
    </ConfirmDialog>
  );
}

/** isPriority reports whether a text is a priority: a whole number of 32 bits. */
export function isPriority(text: string): boolean {
  return /^-?\d+$/.test(text) && Math.abs(Number(text)) < 2 ** 31;
}

/** AddDialog adds a catalog of either system. */
export function AddDialog({ onClose }: { onClose: () => void }) {
  const [isClassic, setIsClassic] = useState(false);
  const [name, setName] = useState('');
  const [namespace, setNamespace] = useState('');
  const [image, setImage] = useState('');
  const [displayName, setDisplayName] = useState('');
  const [publisher, setPublisher] = useState('');
  const [priority, setPriority] = useState('0');
  const [minutes, setMinutes] = useState(15);
  const missing = useMissingPermissions([permissionOn(isClassic ? { kind: 'CatalogSource', namespace, name: '' } : { kind: 'ClusterCatalog', name: '' }, 'create')]);
  const add = useWrite(() => unwrap(api.POST('/api/v1/sources', {
    body: { name, image, priority: Number(priority), pollMinutes: image.includes('@') ? 0 : minutes, ...(isClassic ? { namespace, displayName, publisher } : {}) },
  })), onClose);
  const isComplete = name !== '' && image !== '' && isPriority(priority) && (!isClassic || namespace !== '');
  return (
    <ConfirmDialog title="Add a catalog" action="Add" isDisabled={!isComplete || missing.length > 0} isPending={add.isPending} error={add.error} onConfirm={() => { add.mutate(undefined); }} onClose={onClose}>
      <FormGroup role="radiogroup" isStack label="System" fieldId="system">
        <Radio id="system-v1" name="system" label="OLM v1: a ClusterCatalog" description="For extensions. Everybody may use it." isChecked={!isClassic} onChange={() => { setIsClassic(false); }} />
        <Radio id="system-classic" name="system" label="OLM Classic: a CatalogSource" description="For operators. It is visible in its namespace, or in all if that is the global namespace of OLM." isChecked={isClassic} onChange={() => { setIsClassic(true); }} />
      </FormGroup>
      {missing.length > 0 && <Alert isInline variant="warning" title={`You are not allowed to ${missing.map(describePermission).join(', or to ')}.`} />}
      <Field id="name" label="Name" value={name} onChange={setName} isRequired />
      {isClassic && <Field id="namespace" label="Namespace" value={namespace} onChange={setNamespace} isRequired />}
      <Field id="image" label="Image" value={image} onChange={setImage} isRequired help="With registry, repository, and tag or digest, such as quay.io/example/catalog:v1." />
      {isClassic && <Field id="displayName" label="Display name" value={displayName} onChange={setDisplayName} />}
      {isClassic && <Field id="publisher" label="Publisher" value={publisher} onChange={setPublisher} />}
      <Field id="priority" label="Priority" type="number" value={priority} onChange={setPriority} help="Of several catalogs with the same package, that with the highest priority is used." />
      {!image.includes('@') && <IntervalField minutes={minutes} onChange={setMinutes} />}
    </ConfirmDialog>
  );
}
