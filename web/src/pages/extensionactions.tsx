import { Alert, Button, Checkbox, Flex, FlexItem, FormSelect, FormSelectOption, Radio, TextInput } from '@patternfly/react-core';
import { useMutation, useQuery, type UseMutationResult } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { useNavigate, useSearchParams } from 'react-router';

import { api, unwrap, type Schemas } from '../api/client';
import { ConfigurationEditor } from '../components/configuration';
import { ConfirmDialog } from '../components/confirm';
import { Field } from '../components/field';
import { GuardedButton } from '../components/permissions';
import { PlanCard } from '../components/plan';
import { CRDRemovals } from '../components/removal';
import { ErrorState, LoadingState, ProblemAlert } from '../components/states';
import { formatYaml, isSame, parseObject } from '../components/yamltext';
import { toFaults } from './operands/shared';

const resource = { group: 'olm.operatorframework.io', resource: 'clusterextensions' };

/** useAction returns the action in the address, and how to change it. */
export function useAction(): [string, (action: string) => void] {
  const [parameters, setParameters] = useSearchParams();
  const set = (action: string) => {
    setParameters((before) => {
      if (action === '') before.delete('action');
      else before.set('action', action);
      return before;
    });
  };
  return [parameters.get('action') ?? '', set];
}

interface DialogProps {
  name: string;
  generation: number;
  onClose: () => void;
}

/** ExtensionActions are the buttons that change and remove an extension, and their dialogs. */
export function ExtensionActions({ name, generation }: Omit<DialogProps, 'onClose'>) {
  const [action, setAction] = useAction();
  const dialog = { name, generation, onClose: () => { setAction(''); } };
  return (
    <>
      <Flex columnGap={{ default: 'columnGapSm' }}>
        {([['change', 'Change version', 'patch'], ['configure', 'Change configuration', 'patch'], ['rollback', 'Roll back', 'patch'], ['uninstall', 'Uninstall', 'delete']] as const).map(([key, title, verb]) => (
          <FlexItem key={key}>
            <GuardedButton variant={verb === 'delete' ? 'danger' : 'secondary'} permissions={[{ verb, ...resource, name }]} onClick={() => { setAction(key); }}>{title}</GuardedButton>
          </FlexItem>
        ))}
      </Flex>
      {action === 'change' && <ChangeDialog {...dialog} />}
      {action === 'configure' && <ConfigureDialog {...dialog} />}
      {action === 'rollback' && <RollbackDialog {...dialog} />}
      {action === 'uninstall' && <UninstallDialog {...dialog} />}
    </>
  );
}

/** PreviewPart shows a plan once a person asks for it. */
function PreviewPart<T extends Schemas['PlanPreview']>({ preview, onPreview, isDisabled = false }: { preview: UseMutationResult<T, Error, void>; onPreview: () => void; isDisabled?: boolean }) {
  return (
    <>
      <div><Button variant="secondary" onClick={onPreview} isDisabled={isDisabled} isLoading={preview.isPending}>Show the plan</Button></div>
      {preview.error !== null && <ProblemAlert title="There is no plan" message={preview.error.message} />}
      {preview.isSuccess && <PlanCard title="What would change" preview={preview.data} />}
    </>
  );
}

/** unchecked is the choice not to check changes of CRDs. */
const unchecked = { crdUpgradeSafety: 'None' as const };

function UncheckedBox({ isChecked, onChange }: { isChecked: boolean; onChange: (isChecked: boolean) => void }) {
  const id = useId();
  return (
    <Checkbox
      id={id} label="Do not check that changes of CRDs are safe" description="The change can lose data or break clients. The check stays off for later updates." isChecked={isChecked}
      onChange={(_event, checked) => { onChange(checked); }}
    />
  );
}

function ChangeDialog({ name, generation, onClose }: DialogProps) {
  const id = useId();
  const [version, setVersion] = useState('');
  const [isAnyVersion, setAnyVersion] = useState(false);
  const [selfCertified, setSelfCertified] = useState(false);
  const [isUnchecked, setUnchecked] = useState(false);
  const request = { params: { path: { name } }, body: { generation, version: isAnyVersion ? '' : version.trim(), ...(selfCertified && { selfCertified }), ...(isUnchecked && unchecked) } };
  const preview = useMutation({ mutationFn: () => unwrap(api.POST('/api/v1/extensions/{name}/upgrade-previews', request)) });
  const change = useMutation({ mutationFn: () => unwrap(api.POST('/api/v1/extensions/{name}/upgrades', request)), onSuccess: onClose });
  const isMissing = !isAnyVersion && version.trim() === '';
  return (
    <ConfirmDialog
      title={`Change the version of ${name}`} action="Change" isDisabled={isMissing || !preview.isSuccess || preview.data.refusal !== undefined}
      isPending={change.isPending} error={change.error} onConfirm={() => { change.mutate(); }} onClose={onClose}
    >
      <Radio id={`${id}-any`} name={id} label="Follow the newest version of the catalogs" isChecked={isAnyVersion} onChange={() => { setAnyVersion(true); preview.reset(); }} />
      <Radio id={`${id}-one`} name={id} label="Stay with a version or a range" isChecked={!isAnyVersion} onChange={() => { setAnyVersion(false); preview.reset(); }} />
      {!isAnyVersion && (
        <Field label="Version" help="For example 1.4.0, 1.4.x or >=1.4, <2.">{(field) => <TextInput id={field} value={version} onChange={(_event, value) => { setVersion(value); preview.reset(); }} />}</Field>
      )}
      <Checkbox
        id={`${id}-self`} label="Allow versions outside of the upgrade paths of the catalog" description="The author has not tested such an update." isChecked={selfCertified}
        onChange={(_event, checked) => { setSelfCertified(checked); preview.reset(); }}
      />
      <UncheckedBox isChecked={isUnchecked} onChange={(checked) => { setUnchecked(checked); preview.reset(); }} />
      <PreviewPart preview={preview} isDisabled={isMissing} onPreview={() => { preview.mutate(); }} />
    </ConfirmDialog>
  );
}

/** ConfigureDialog changes the configuration of an extension. It begins with the present one. */
function ConfigureDialog({ name, onClose }: DialogProps) {
  const read = useQuery({
    queryKey: ['extension-config', name], gcTime: 0, staleTime: Infinity,
    queryFn: () => unwrap(api.POST('/api/v1/extensions/{name}/config-checks', { params: { path: { name } }, body: {} })),
  });
  if (read.isSuccess) return <ConfigureForm name={name} present={read.data} onClose={onClose} />;
  return (
    <ConfirmDialog title={`Change the configuration of ${name}`} action="Change" isDisabled isPending={false} error={null} onConfirm={onClose} onClose={onClose}>
      {read.isError ? <ErrorState error={read.error} onRetry={() => void read.refetch()} /> : <LoadingState what="the configuration" />}
    </ConfirmDialog>
  );
}

function ConfigureForm({ name, present, onClose }: { name: string; present: Schemas['ExtensionConfig']; onClose: () => void }) {
  const [text, setText] = useState(() => (present.config === undefined ? '' : formatYaml(present.config)));
  const { value: config = {}, error } = parseObject(text);
  const request = { params: { path: { name } }, body: { generation: present.generation ?? 0, config } };
  const check = useMutation({ mutationFn: () => unwrap(api.POST('/api/v1/extensions/{name}/config-checks', { params: { path: { name } }, body: { config } })) });
  const preview = useMutation({ mutationFn: () => unwrap(api.POST('/api/v1/extensions/{name}/upgrade-previews', request)) });
  const change = useMutation({ mutationFn: () => unwrap(api.POST('/api/v1/extensions/{name}/upgrades', request)), onSuccess: onClose });
  const faults = toFaults(check.data?.faults ?? []);
  const edit = (changed: string) => {
    setText(changed);
    check.reset();
    preview.reset();
  };
  const isUnchanged = error !== undefined || isSame(config, present.config ?? {});
  return (
    <ConfirmDialog
      title={`Change the configuration of ${name}`} action="Change" isDisabled={isUnchanged || check.isPending || faults.length > 0 || !preview.isSuccess || preview.data.refusal !== undefined}
      isPending={change.isPending} error={change.error} onConfirm={() => { change.mutate(); }} onClose={onClose}
    >
      <ConfigurationEditor text={text} onChange={edit} bundle={present} faults={faults} />
      {error !== undefined && <ProblemAlert title="The configuration is not valid" message={error} />}
      <PreviewPart preview={preview} isDisabled={isUnchanged} onPreview={() => { check.mutate(); preview.mutate(); }} />
    </ConfirmDialog>
  );
}

function RollbackDialog({ name, generation, onClose }: DialogProps) {
  const [revision, setRevision] = useState(0);
  const [isUnchecked, setUnchecked] = useState(false);
  const history = useQuery({ queryKey: ['revisions', name], queryFn: () => unwrap(api.GET('/api/v1/extensions/{name}/revisions', { params: { path: { name } } })) });
  const request = { params: { path: { name } }, body: { generation, ...(revision !== 0 && { revision }), ...(isUnchecked && unchecked) } };
  const preview = useMutation({ mutationFn: () => unwrap(api.POST('/api/v1/extensions/{name}/rollback-previews', request)) });
  const rollback = useMutation({ mutationFn: () => unwrap(api.POST('/api/v1/extensions/{name}/rollbacks', request)), onSuccess: onClose });
  const isFirst = history.isSuccess && history.data.revisions.length < 2;
  return (
    <ConfirmDialog
      title={`Roll back ${name}`} action="Roll back" isDisabled={!preview.isSuccess || preview.data.refusal !== undefined}
      isPending={rollback.isPending} error={rollback.error} onConfirm={() => { rollback.mutate(); }} onClose={onClose}
    >
      <Field label="Revision" help="The version of the revision is pinned. Custom resources stay as they are.">
        {(id) => (
          <FormSelect id={id} value={revision} onChange={(_event, value) => { setRevision(Number(value)); preview.reset(); }}>
            <FormSelectOption value={0} label="The last successful one with another version" />
            {(history.data?.revisions ?? []).toReversed().map((r) => <FormSelectOption key={r.revision} value={r.revision} label={`${r.revision}: ${r.version ?? r.bundle ?? ''} (${r.state})`} />)}
          </FormSelect>
        )}
      </Field>
      <UncheckedBox isChecked={isUnchecked} onChange={(checked) => { setUnchecked(checked); preview.reset(); }} />
      {isFirst && <Alert isInline isPlain variant="info" title="There is no other revision to go back to yet." />}
      <PreviewPart preview={preview} isDisabled={isFirst} onPreview={() => { preview.mutate(); }} />
      {preview.isSuccess && <p>It goes back to revision {preview.data.to.revision}, {preview.data.to.bundle}.</p>}
    </ConfirmDialog>
  );
}

function UninstallDialog({ name, onClose }: DialogProps) {
  const id = useId();
  const navigate = useNavigate();
  const [keepCRDs, setKeepCRDs] = useState(true);
  const removal = useQuery({
    queryKey: ['removal', name, keepCRDs],
    queryFn: () => unwrap(api.GET('/api/v1/extensions/{name}/removal', { params: { path: { name }, query: { keepCRDs } } })),
    staleTime: 0, placeholderData: (before) => before,
  });
  const losesCustomResources = removal.data?.refusal !== undefined;
  const losesData = losesCustomResources || (removal.data?.namespaces ?? []).length > 0;
  const uninstall = useMutation({
    mutationFn: () => unwrap(api.POST('/api/v1/extensions/{name}/uninstalls', {
      params: { path: { name } }, body: { keepCRDs, ...(losesCustomResources && { deleteCustomResources: true }), ...(losesData && { confirmation: name }) },
    })),
    onSuccess: () => void navigate(`/installed/extensions/${encodeURIComponent(name)}`),
  });
  return (
    <ConfirmDialog
      title={`Uninstall ${name}?`} action="Uninstall" isDanger typed={losesData ? name : undefined} isDisabled={!removal.isSuccess || removal.isPlaceholderData}
      isPending={uninstall.isPending} error={uninstall.error ?? removal.error} onConfirm={() => { uninstall.mutate(); }} onClose={onClose}
    >
      {removal.isPending && <LoadingState what="what would be removed" />}
      <Checkbox
        id={id} label="Keep the CRDs and all custom resources" description="An extension that is installed later under the same name adopts them." isChecked={keepCRDs}
        onChange={(_event, checked) => { setKeepCRDs(checked); }}
      />
      {removal.isSuccess && <ExtensionLosses removal={removal.data} />}
    </ConfirmDialog>
  );
}

function ExtensionLosses({ removal: { crds = [], crdsKept = false, namespaces = [], unknown, bundle } }: { removal: Schemas['ExtensionRemovalPreview'] }) {
  return (
    <>
      <p>All objects of {bundle ?? 'the extension'} are deleted, and its operator stops.</p>
      {unknown !== undefined && <Alert isInline variant="warning" title={unknown} />}
      <CRDRemovals title={crdsKept ? 'CRDs that are kept, with all custom resources' : 'CRDs that are deleted, with all custom resources'} crds={crds} isDanger={!crdsKept} />
      {namespaces.length > 0 && <Alert isInline variant="danger" title="Namespaces that are deleted with everything in them">{namespaces.join(', ')}</Alert>}
    </>
  );
}
