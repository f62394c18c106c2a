import { Alert, Button, Checkbox, Flex, FlexItem, FormSelect, FormSelectOption, List, ListItem, Radio } from '@patternfly/react-core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { useNavigate } from 'react-router';

import { api, unwrap, type Schemas } from '../api/client';
import { ConfirmDialog } from '../components/confirm';
import { Field } from '../components/field';
import { GuardedButton, PermissionRules } from '../components/permissions';
import { Lines, Section } from '../components/plan';
import { PlanSteps } from '../components/plansteps';
import { CRDRemovals } from '../components/removal';
import { ErrorState, LoadingState, ProblemAlert } from '../components/states';
import { formatYaml, isSame, parseObject } from '../components/yamltext';
import { useAction } from './extensionactions';
import { OperatorConfiguration, readConfig } from './operatorconfiguration';

const group = 'operators.coreos.com';

interface DialogProps {
  namespace: string;
  name: string;
  generation: number;
  onClose: () => void;
}

interface ActionsProps extends Omit<DialogProps, 'onClose'> {
  /** waitingPlan is the name of the InstallPlan that waits for an approval. */
  waitingPlan: string | undefined;
}

/** OperatorActions are the buttons that approve, change and remove an operator, and their dialogs. */
export function OperatorActions({ namespace, name, generation, waitingPlan }: ActionsProps) {
  const [action, setAction] = useAction();
  const dialog = { namespace, name, generation, onClose: () => { setAction(''); } };
  return (
    <>
      <Flex columnGap={{ default: 'columnGapSm' }}>
        {waitingPlan !== undefined && (
          <FlexItem>
            <GuardedButton permissions={[{ verb: 'patch', group, resource: 'installplans', namespace, name: waitingPlan }]} onClick={() => { setAction('approve'); }}>Review and approve</GuardedButton>
          </FlexItem>
        )}
        {([['change', 'Change channel or approval'], ['configure', 'Change configuration']] as const).map(([key, title]) => (
          <FlexItem key={key}><GuardedButton variant="secondary" permissions={[{ verb: 'patch', group, resource: 'subscriptions', namespace, name }]} onClick={() => { setAction(key); }}>{title}</GuardedButton></FlexItem>
        ))}
        <FlexItem><GuardedButton variant="danger" permissions={[{ verb: 'delete', group, resource: 'subscriptions', namespace, name }]} onClick={() => { setAction('uninstall'); }}>Uninstall</GuardedButton></FlexItem>
      </Flex>
      {action === 'approve' && <ApproveDialog {...dialog} onDeny={() => { setAction('deny'); }} />}
      {action === 'deny' && <DenyDialog {...dialog} onChoose={setAction} />}
      {action === 'change' && <ChangeDialog {...dialog} />}
      {action === 'configure' && <ConfigureDialog {...dialog} />}
      {action === 'uninstall' && <UninstallDialog {...dialog} />}
    </>
  );
}

function ApproveDialog({ namespace, name, onClose, onDeny }: DialogProps & { onDeny: () => void }) {
  const path = { namespace, name };
  const preview = useQuery({
    queryKey: ['approval', namespace, name], staleTime: 0,
    queryFn: () => unwrap(api.GET('/api/v1/namespaces/{namespace}/subscriptions/{name}/approval', { params: { path } })),
  });
  const approve = useMutation({
    mutationFn: ({ name: plan, resourceVersion }: Schemas['Plan']) => unwrap(api.POST('/api/v1/namespaces/{namespace}/subscriptions/{name}/approvals', { params: { path }, body: { plan, resourceVersion } })),
    onSuccess: onClose,
    onError: () => void preview.refetch(),
  });
  return (
    <ConfirmDialog
      title="Approve the InstallPlan?" action="Approve" isDisabled={!preview.isSuccess} isPending={approve.isPending} error={approve.error ?? preview.error}
      onConfirm={() => { if (preview.data !== undefined) approve.mutate(preview.data.plan); }} onClose={onClose}
    >
      {preview.isPending && <LoadingState what="the plan" />}
      {preview.isSuccess && <ApprovalContents preview={preview.data} name={name} />}
      <Button variant="link" isInline onClick={onDeny}>Do not approve</Button>
    </ConfirmDialog>
  );
}

function ApprovalContents({ preview: { plan, changes }, name }: { preview: Schemas['ApprovalPreview']; name: string }) {
  const others = plan.subscriptions.filter((s) => s !== name);
  const roles = [...new Set((changes.rights ?? []).map((r) => r.role))];
  return (
    <>
      <p>InstallPlan {plan.name} installs {plan.operators.join(', ')}.</p>
      {others.length > 0 && <Alert isInline variant="warning" title="The plan is for several operators">OLM upgrades operators that need each other together. The approval is also for {others.join(', ')}.</Alert>}
      {roles.length > 0 && (
        <Section title={`Rights that are granted (${(changes.rights ?? []).length})`}>
          {roles.map((role) => <div key={role}><strong>{role}</strong><PermissionRules rules={(changes.rights ?? []).filter((r) => r.role === role).map((r) => ({ ...r.rule, farReaching: r.farReaching }))} /></div>)}
        </Section>
      )}
      <PlanSteps steps={plan.steps ?? []} changes={changes.changes ?? []} isComplete={(changes.unread ?? []).length === 0} />
      {(changes.unread ?? []).map((text) => <Alert key={text} isInline isPlain variant="warning" title={text} />)}
    </>
  );
}

/** DenyDialog says how to get rid of a plan: OLM has no way to refuse one. */
function DenyDialog({ onClose, onChoose }: DialogProps & { onChoose: (action: string) => void }) {
  return (
    <ConfirmDialog title="Do not approve" action="Keep it waiting" isPending={false} error={null} onConfirm={onClose} onClose={onClose}>
      <p>A plan that is not approved changes nothing. It also holds back the other installations and upgrades of the namespace, because OLM resolves them together.</p>
      <List>
        <ListItem>To get another version, <Button variant="link" isInline onClick={() => { onChoose('change'); }}>choose another channel</Button>. OLM then creates another plan.</ListItem>
        <ListItem>To give the operator up, <Button variant="link" isInline onClick={() => { onChoose('uninstall'); }}>uninstall it</Button>. The other operators of the namespace get a plan without it.</ListItem>
      </List>
    </ConfirmDialog>
  );
}

function ChangeDialog({ namespace, name, generation, onClose }: DialogProps) {
  const id = useId();
  const path = { namespace, name };
  const [channel, setChannel] = useState('');
  const [approval, setApproval] = useState<'' | 'Automatic' | 'Manual'>('');
  const versions = useQuery({ queryKey: ['versions', namespace, name], queryFn: () => unwrap(api.GET('/api/v1/namespaces/{namespace}/subscriptions/{name}/versions', { params: { path } })) });
  const change = useMutation({
    mutationFn: () => unwrap(api.POST('/api/v1/namespaces/{namespace}/subscriptions/{name}/upgrades', {
      params: { path }, body: { generation, ...(channel !== '' && { channel }), ...(approval !== '' && { approval }) },
    })),
    onSuccess: onClose,
  });
  const channels = versions.data?.channels ?? [];
  const chosen = channels.find((c) => c.name === channel);
  return (
    <ConfirmDialog
      title={`Change ${name}`} action="Change" isDisabled={channel === '' && approval === ''} isPending={change.isPending} error={change.error ?? versions.error}
      onConfirm={() => { change.mutate(); }} onClose={onClose}
    >
      <Field label="Channel" help={chosen?.deprecated === undefined ? 'A change takes effect at once, or when its plan is approved.' : `This channel is deprecated: ${chosen.deprecated}`}>
        {(field) => (
          <FormSelect id={field} value={channel} onChange={(_event, value) => { setChannel(value); }}>
            <FormSelectOption value="" label="As it is" />
            {channels.filter((c) => c.subscribed !== true).map((c) => <FormSelectOption key={c.name} value={c.name} label={`${c.name}: ${c.versions.find((v) => v.head === true)?.version ?? ''}${c.deprecated === undefined ? '' : ' – deprecated'}`} />)}
          </FormSelect>
        )}
      </Field>
      {chosen !== undefined && <Lines title={`Versions of ${chosen.name}`} lines={chosen.versions.map((v) => v.version ?? v.name)} />}
      {([['', 'Approval as it is', undefined], ['Automatic', 'Automatic approval', undefined], ['Manual', 'Manual approval', 'Each installation and upgrade waits for an approval. Operators that depend on this one wait with it.']] as const).map(([value, label, description]) => (
        <Radio key={value} id={`${id}-${value}`} name={id} label={label} description={description} isChecked={approval === value} onChange={() => { setApproval(value); }} />
      ))}
    </ConfirmDialog>
  );
}

/** ConfigureDialog changes the configuration of the operator's pods. It begins with the present one. */
function ConfigureDialog({ namespace, name, onClose }: DialogProps) {
  const path = { namespace, name };
  const source = useQuery({
    queryKey: ['subscription-config', namespace, name], gcTime: 0, staleTime: Infinity,
    queryFn: () => unwrap(api.GET('/api/v1/namespaces/{namespace}/subscriptions/{name}/source', { params: { path } })),
  });
  if (source.isSuccess) return <ConfigureForm namespace={namespace} name={name} generation={source.data.generation} present={readConfig(source.data.manifest.yaml)} onClose={onClose} />;
  return (
    <ConfirmDialog title={`Change the configuration of ${name}`} action="Change" isDisabled isPending={false} error={null} onConfirm={onClose} onClose={onClose}>
      {source.isError ? <ErrorState error={source.error} onRetry={() => void source.refetch()} /> : <LoadingState what="the configuration" />}
    </ConfirmDialog>
  );
}

/** ConfigureForm changes the present configuration. The change is refused if somebody else has changed the Subscription since it was read. */
function ConfigureForm({ namespace, name, generation, present, onClose }: DialogProps & { present: Record<string, unknown> | undefined }) {
  const [text, setText] = useState(() => (present === undefined ? '' : formatYaml(present)));
  const { value: config = {}, error } = parseObject(text);
  const change = useMutation({
    mutationFn: () => unwrap(api.POST('/api/v1/namespaces/{namespace}/subscriptions/{name}/upgrades', { params: { path: { namespace, name } }, body: { generation, config } })),
    onSuccess: onClose,
  });
  return (
    <ConfirmDialog
      title={`Change the configuration of ${name}`} action="Change" isDisabled={error !== undefined || isSame(config, present ?? {})}
      isPending={change.isPending} error={change.error} onConfirm={() => { change.mutate(); }} onClose={onClose}
    >
      <p>OLM adds the configuration to the Deployments of the operator. Its pods restart if they change.</p>
      <OperatorConfiguration namespace={namespace} text={text} onChange={(changed) => { setText(changed); change.reset(); }} />
      {error !== undefined && <ProblemAlert title="The configuration is not valid" message={error} />}
    </ConfirmDialog>
  );
}

function UninstallDialog({ namespace, name, onClose }: DialogProps) {
  const id = useId();
  const path = { namespace, name };
  const navigate = useNavigate();
  const [keepOperator, setKeepOperator] = useState(false);
  const [deleteCRDs, setDeleteCRDs] = useState(false);
  const removal = useQuery({
    queryKey: ['removal', namespace, name], staleTime: 0,
    queryFn: () => unwrap(api.GET('/api/v1/namespaces/{namespace}/subscriptions/{name}/removal', { params: { path } })),
  });
  const crds = removal.data?.crds ?? [];
  const losesData = deleteCRDs && crds.length > 0;
  const uninstall = useMutation({
    mutationFn: () => unwrap(api.POST('/api/v1/namespaces/{namespace}/subscriptions/{name}/uninstalls', {
      params: { path }, body: { keepOperator, deleteCRDs, ...(losesData && { deleteCustomResources: true, confirmation: removal.data?.subscription ?? name }) },
    })),
    onSuccess: () => void navigate('/installed'),
  });
  return (
    <ConfirmDialog
      title={`Uninstall ${name}?`} action="Uninstall" isDanger typed={losesData ? (removal.data?.subscription ?? name) : undefined} isDisabled={!removal.isSuccess}
      isPending={uninstall.isPending} error={uninstall.error ?? removal.error} onConfirm={() => { uninstall.mutate(); }} onClose={onClose}
    >
      {removal.isPending && <LoadingState what="what would be removed" />}
      {removal.isSuccess && <OperatorLosses removal={removal.data} deleteCRDs={deleteCRDs} keepOperator={keepOperator} />}
      <Checkbox id={`${id}-keep`} label="Keep the operator running" description="Only the Subscription is removed: there are no upgrades any more." isChecked={keepOperator} onChange={(_event, checked) => { setKeepOperator(checked); }} />
      {crds.length > 0 && removal.data?.hidesOperands !== true && (
        <Checkbox id={`${id}-crds`} label="Delete the CRDs and all custom resources" description="The custom resources go first, while the operator can clean up. If one of them is left, the operator stays." isChecked={deleteCRDs} onChange={(_event, checked) => { setDeleteCRDs(checked); }} />
      )}
    </ConfirmDialog>
  );
}

function OperatorLosses({ removal: { subscription, csv, replaced = [], crds = [], requiredBy = [], message, hidesOperands = false }, deleteCRDs, keepOperator }: { removal: Schemas['SubscriptionRemoval']; deleteCRDs: boolean; keepOperator: boolean }) {
  const goes = [`Subscription ${subscription}`, ...(keepOperator ? [] : [...replaced, ...(csv === undefined ? [] : [csv])].map((operator) => `operator ${operator}`))];
  return (
    <>
      {message !== undefined && <Alert isInline variant="info" title="The author of the operator says">{message}</Alert>}
      <Lines title="These are removed" lines={goes} />
      {!hidesOperands && <CRDRemovals title={deleteCRDs ? 'CRDs that are deleted, with all custom resources' : 'CRDs that stay, with all custom resources'} crds={crds} isDanger={deleteCRDs} />}
      <p>The namespace, its OperatorGroup and operators that were installed as dependencies stay.</p>
      {requiredBy.length > 0 && <Alert isInline variant="warning" title="Other operators require these CRDs">{requiredBy.join(', ')}</Alert>}
    </>
  );
}
