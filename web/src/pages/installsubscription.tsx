import { ActionGroup, Alert, Button, Card, CardBody, CardTitle, Checkbox, ExpandableSection, Form, FormGroup, FormSelect, FormSelectOption, PageSection, Radio, Stack, StackItem, TextInput } from '@patternfly/react-core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useEffect, useId, useState, type FocusEvent, type SyntheticEvent } from 'react';
import { Link, useNavigate, useSearchParams } from 'react-router';

import { api, ApiError, unwrap, type Schemas } from '../api/client';
import { CatalogLink } from '../components/cataloglink';
import { DetailsHeader } from '../components/details';
import { Field, Help } from '../components/field';
import { GuardedButton } from '../components/permissions';
import { Lines, Manifests } from '../components/plan';
import { ErrorState, LoadingState, NothingState, ProblemAlert } from '../components/states';
import { ViewToggle } from '../components/viewtoggle';
import { YamlEditor } from '../components/yaml';
import { parseObject } from '../components/yamltext';
import { OperatorConfiguration } from './operatorconfiguration';
import { completeDraft, isMonitored, mustApprove, newDraft, readVariable, readYaml, recommendedNamespace, showYaml, supportsMode, tokens, toRequest, writeVariable, type Draft, type Mode } from './subscriptiondraft';

const catalogParent = { path: '/catalog', title: 'Catalog' };

/** InstallSubscriptionPage installs an operator of OLM Classic: a form, what it would do, and then the button. */
export function InstallSubscriptionPage() {
  const [parameters] = useSearchParams();
  const [draft, setDraft] = useState(() => newDraft(parameters));
  const [last, setLast] = useState<Schemas['Offer']>();
  const asked = useSettled(draft, draft.isYaml ? typingPause : 0);
  const { package: name, catalog } = asked;
  const isSettled = name === draft.package && catalog === draft.catalog && asked.namespace === draft.namespace;
  // Until a namespace is chosen, the package is asked for where its catalog is.
  const namespace = asked.namespace !== '' ? asked.namespace : (/^(.+)\//.exec(catalog)?.[1] ?? 'default');
  const offer = useQuery({
    queryKey: ['subscription-offer', namespace, name, catalog],
    queryFn: () => unwrap(api.GET('/api/v1/namespaces/{namespace}/subscription-offers/{package}', { params: { path: { namespace, package: name }, query: { catalog } } })),
    enabled: name !== '',
    placeholderData: (before) => before,
  });
  if (offer.data !== undefined && offer.data !== last) {
    setLast(offer.data);
    if (draft.namespace === '' && !draft.isYaml) setDraft({ ...draft, namespace: recommendedNamespace(offer.data, completeDraft(draft, offer.data).channel) ?? offer.data.defaultNamespace });
  }
  return (
    <>
      <DetailsHeader title={`Install ${last?.displayName ?? name}`} parent={catalogParent} />
      <PageSection isFilled>
        {name === '' && <NothingState title="No package is chosen">Choose a package in the catalog.</NothingState>}
        {name !== '' && offer.isPending && <LoadingState what="the catalogs" />}
        {last === undefined && offer.isError && <ErrorState error={offer.error} onRetry={() => void offer.refetch()} actions={<CatalogLink />} />}
        {last !== undefined && (
          <InstallForm offer={last} isCurrent={isSettled && offer.isSuccess && !offer.isPlaceholderData} error={offer.error} draft={completeDraft(draft, last)} onChange={(fields) => { setDraft((before) => ({ ...before, ...fields })); }} />
        )}
      </PageSection>
    </>
  );
}

/** typingPause is the time in milliseconds after which a name that is typed into the YAML counts as complete. */
const typingPause = 400;

/** useSettled returns a value that has not changed for a time in milliseconds. */
function useSettled<T>(value: T, pause: number): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => { setSettled(value); }, pause);
    return () => { clearTimeout(timer); };
  }, [value, pause]);
  return pause === 0 ? value : settled;
}

interface FormProps {
  offer: Schemas['Offer'];
  draft: Draft;
  onChange: (fields: Partial<Draft>) => void;
}

/** InstallForm is the form for the last offer that could be read. It stays if the package is not visible in a chosen namespace, which is then an error. */
function InstallForm({ offer, isCurrent, error, draft, onChange }: FormProps & { isCurrent: boolean; error: Error | null }) {
  const navigate = useNavigate();
  const path = { namespace: draft.namespace };
  const preview = useMutation({ mutationFn: (body: Schemas['SubscriptionRequest']) => unwrap(api.POST('/api/v1/namespaces/{namespace}/subscription-previews', { params: { path }, body })) });
  const install = useMutation({
    mutationFn: (body: Schemas['SubscriptionRequest']) => unwrap(api.POST('/api/v1/namespaces/{namespace}/subscriptions', { params: { path }, body })),
    onSuccess: ({ name }) => void navigate(`/installed/subscriptions/${encodeURIComponent(draft.namespace)}/${encodeURIComponent(name)}`),
  });
  const refusal = offer.details.find((d) => d.channel === draft.channel)?.refusal;
  const request = toRequest(draft, offer);
  const isIncomplete = typeof request === 'string' || !isCurrent || offer.subscription !== undefined;
  const change = (fields: Partial<Draft>) => {
    onChange(fields);
    preview.reset();
    install.reset();
  };
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (typeof request !== 'string') preview.mutate(request);
  };
  const fields = { offer, draft, onChange: change };
  return (
    <Stack hasGutter>
      <StackItem>
        <Form onSubmit={submit} isWidthLimited>
          <ViewToggle
            label="How to edit the Subscription" isYaml={draft.isYaml} text={draft.isYaml ? draft.object : draft.config}
            onChange={(isYaml) => { change(isYaml ? showYaml(draft, offer) : { isYaml }); }}
          />
          {draft.isYaml ? <YamlFields {...fields} error={error} /> : <VersionFields {...fields} />}
          {refusal !== undefined && <Alert isInline variant="danger" title="It cannot be installed">{refusal}</Alert>}
          {refusal === undefined && (
            <>
              {!draft.isYaml && <NamespaceFields {...fields} error={error} />}
              <ModeFields {...fields} />
              {!draft.isYaml && (
                <>
                  <ApprovalFields {...fields} />
                  <TokenFields {...fields} />
                  <ConfigurationField draft={draft} onChange={change} />
                </>
              )}
              <ActionGroup>
                <Button type="submit" variant={preview.isSuccess ? 'secondary' : 'primary'} isDisabled={isIncomplete} isLoading={preview.isPending}>Review</Button>
                <GuardedButton
                  permissions={[
                    { verb: 'create', group: 'operators.coreos.com', resource: 'subscriptions', namespace: draft.namespace },
                    ...(isMonitored(draft, offer) === true ? rolePermissions(draft.namespace) : []),
                  ]}
                  isDisabled={isIncomplete || !preview.isSuccess || install.isPending} isLoading={install.isPending} onClick={() => { if (typeof request !== 'string') install.mutate(request); }}
                >
                  Install
                </GuardedButton>
              </ActionGroup>
              <Help>{typeof request === 'string' ? request : 'Review shows what is created.'}</Help>
            </>
          )}
        </Form>
      </StackItem>
      {[preview.error, install.error].map((error) => error !== null && (
        <StackItem key={error.message}><ProblemAlert title="Nothing was installed" message={error.message} advice={error instanceof ApiError ? error.advice : undefined} /></StackItem>
      ))}
      {preview.isSuccess && <StackItem><Review preview={preview.data} /></StackItem>}
    </Stack>
  );
}

/** YamlFields edit the Subscription as YAML. */
function YamlFields({ offer, draft, error, onChange }: FormProps & { error: Error | null }) {
  return (
    <>
      <YamlEditor label="Subscription" value={draft.object} onChange={(text) => { onChange(readYaml(draft, text)); }} />
      <Help><NamespaceHelp offer={offer} draft={draft} error={error} /></Help>
      <NamespaceProblem namespace={draft.namespace} error={error} />
      <NamespaceCheckboxes offer={offer} draft={draft} onChange={onChange} />
    </>
  );
}

function VersionFields({ offer, draft, onChange }: FormProps) {
  const channel = offer.channels.find((c) => c.name === draft.channel);
  const versions = channel?.versions ?? [];
  // Only a YAML names the newest version, or one that the channel does not offer.
  const isPinned = draft.csv !== '' && !versions.some((v) => v.name === draft.csv && v.head !== true);
  return (
    <>
      <Field label="Channel" help={channel?.deprecated === undefined ? 'Upgrades come from this channel.' : `This channel is deprecated: ${channel.deprecated}`}>
        {(id) => (
          <FormSelect id={id} value={draft.channel} onChange={(_event, name) => { onChange({ channel: name, csv: '', mode: '' }); }}>
            {channel === undefined && <FormSelectOption value={draft.channel} label={`${draft.channel} – not offered`} />}
            {offer.channels.map((c) => <FormSelectOption key={c.name} value={c.name} label={`${c.name}${c.default === true ? ' (default)' : ''}${c.deprecated === undefined ? '' : ' – deprecated'}`} />)}
          </FormSelect>
        )}
      </Field>
      <Field label="Version" help="The version to install first.">
        {(id) => (
          <FormSelect id={id} value={draft.csv} onChange={(_event, csv) => { onChange({ csv }); }}>
            {isPinned && <FormSelectOption value={draft.csv} label={draft.csv} />}
            {versions.map((v) => <FormSelectOption key={v.name} value={v.head === true ? '' : v.name} label={`${v.version ?? v.name}${v.head === true ? ' (newest)' : ''}${v.deprecated === undefined ? '' : ' – deprecated'}`} />)}
          </FormSelect>
        )}
      </Field>
    </>
  );
}

function NamespaceFields({ offer, draft, error, onChange }: FormProps & { error: Error | null }) {
  const recommended = recommendedNamespace(offer, draft.channel);
  return (
    <>
      <Field label="Namespace" isRequired help={<NamespaceHelp offer={offer} draft={draft} error={error} />}>
        {(field) => <TextInput id={field} key={draft.namespace} defaultValue={draft.namespace} onBlur={(event: FocusEvent<HTMLInputElement>) => { onChange({ namespace: event.currentTarget.value.trim() }); }} />}
      </Field>
      <NamespaceProblem namespace={draft.namespace} error={error} />
      {recommended !== undefined && draft.namespace !== recommended && (
        <Alert isInline isPlain variant="warning" title={`The author recommends namespace ${recommended}.`}><Button variant="link" isInline onClick={() => { onChange({ namespace: recommended }); }}>Use {recommended}</Button></Alert>
      )}
      <NamespaceCheckboxes offer={offer} draft={draft} onChange={onChange} />
    </>
  );
}

function NamespaceProblem({ namespace, error }: { namespace: string; error: Error | null }) {
  if (error === null) return null;
  return <ProblemAlert title={`The package cannot be installed in namespace ${namespace}`} message={error.message} advice={error instanceof ApiError ? error.advice : undefined} />;
}

function NamespaceCheckboxes({ offer, draft, onChange }: FormProps) {
  const id = useId();
  const monitored = isMonitored(draft, offer);
  return (
    <>
      <Checkbox id={`${id}-create`} label="Create the namespace if it does not exist" isChecked={draft.createNamespace} onChange={(_event, createNamespace) => { onChange({ createNamespace }); }} />
      {monitored !== undefined && (
        <Checkbox
          id={`${id}-monitoring`} label="Enable cluster monitoring for the namespace" isChecked={monitored} onChange={(_event, isMonitored) => { onChange({ isMonitored }); }}
          description="The monitoring of the cluster reads the metrics of the operator. Enable it only for an operator that you trust, because its metrics can replace those of the cluster."
        />
      )}
    </>
  );
}

/** rolePermissions are what a user needs for the roles of cluster monitoring. */
function rolePermissions(namespace: string): Schemas['Permission'][] {
  return ['roles', 'rolebindings'].map((resource) => ({ verb: 'create', group: 'rbac.authorization.k8s.io', resource, namespace }));
}

function NamespaceHelp({ offer, draft, error }: Pick<FormProps, 'offer' | 'draft'> & { error: Error | null }) {
  if (draft.namespace === '' || error !== null) return 'The operator runs there.';
  if (offer.subscription !== undefined) {
    return <>The package is installed in this namespace already, as <Link to={`/installed/subscriptions/${draft.namespace}/${offer.subscription}`}>{offer.subscription}</Link>.</>;
  }
  return offer.namespaceExists ? 'The namespace exists. Operators in it are resolved and upgraded together.' : 'The namespace does not exist yet.';
}

function ModeFields({ offer, draft, onChange }: FormProps) {
  const id = useId();
  const { operatorGroup: group } = offer;
  if (group !== undefined) {
    return <FormGroup role="group" label="Install mode"><Help>OperatorGroup {group.name} of the namespace decides: the operator watches {group.targets === undefined ? 'all namespaces' : group.targets.join(', ')}.</Help></FormGroup>;
  }
  const option = (mode: Mode, label: string) => {
    const isSupported = supportsMode(offer, draft.channel, mode);
    return (
      <Radio
        id={`${id}-${mode}`} name={id} label={label} description={isSupported ? undefined : 'The operator does not support this.'} isDisabled={!isSupported}
        isChecked={draft.mode === mode} onChange={() => { onChange({ mode }); }}
      />
    );
  };
  return (
    <FormGroup role="radiogroup" label="Install mode">
      {option('all', 'Watch all namespaces')}
      {option('own', 'Watch only its own namespace')}
      {option('others', 'Watch other namespaces')}
      {draft.mode === 'others' && <TextInput aria-label="Watched namespaces, separated by commas" value={draft.watch} onChange={(_event, watch) => { onChange({ watch }); }} />}
      <Help>An OperatorGroup is created for this, because the namespace has none.</Help>
    </FormGroup>
  );
}

function ApprovalFields({ offer, draft, onChange }: FormProps) {
  const id = useId();
  const reason = mustApprove(draft, offer);
  const isManual = draft.isManual || reason !== '';
  return (
    <FormGroup role="radiogroup" label="Approval of upgrades">
      <Radio id={`${id}-automatic`} name={id} label="Automatic" description={reason === '' ? 'New versions of the channel are installed by themselves.' : reason} isDisabled={reason !== ''} isChecked={!isManual} onChange={() => { onChange({ isManual: false }); }} />
      <Radio id={`${id}-manual`} name={id} label="Manual" description="Each installation and upgrade waits for an approval. You see its rights before. Operators that depend on this one wait with it." isChecked={isManual} onChange={() => { onChange({ isManual: true }); }} />
    </FormGroup>
  );
}

function TokenFields({ offer, draft, onChange }: FormProps) {
  const supported = offer.details.find((d) => d.channel === draft.channel)?.clouds ?? [];
  const clouds = Object.entries(tokens).filter(([cloud]) => supported.includes(cloud));
  if (clouds.length === 0) return null;
  const isBroken = parseObject(draft.config).error !== undefined;
  return (
    <ExpandableSection toggleText="Short-lived credentials of a cloud">
      <Help>Fill these in if the cluster uses short-lived credentials. Then choose manual approval, because a new version may need other rights in the cloud.</Help>
      {clouds.flatMap(([cloud, variables]) => variables.map(([variable, label]) => (
        <Field key={variable} label={`${cloud.toUpperCase()}: ${label}`} help={`The environment variable ${variable} of the operator, also in its configuration.`}>
          {(id) => <TextInput id={id} isDisabled={isBroken} value={readVariable(draft.config, variable)} onChange={(_event, value) => { onChange({ config: writeVariable(draft.config, variable, value), isManual: true }); }} />}
        </Field>
      )))}
    </ExpandableSection>
  );
}

function ConfigurationField({ draft, onChange }: Pick<FormProps, 'draft' | 'onChange'>) {
  const [isOpen, setOpen] = useState(false);
  return (
    <ExpandableSection toggleText="Configuration" isExpanded={isOpen} onToggle={(_event, open) => { setOpen(open); }}>
      {isOpen && (
        <>
          <Help>It changes the pods of the operator: environment variables such as HTTPS_PROXY, resources, node selector, tolerations. Review asks the API server whether it is valid.</Help>
          <OperatorConfiguration namespace={draft.namespace} text={draft.config} onChange={(config) => { onChange({ config }); }} />
        </>
      )}
    </ExpandableSection>
  );
}

function Review({ preview }: { preview: Schemas['SubscriptionPreview'] }) {
  const { warnings = [], watches, csv, objects, crds = [], images = [] } = preview;
  return (
    <Card>
      <CardTitle component="h2">What the installation does</CardTitle>
      <CardBody>
        <p>OLM installs {csv}. The operator watches {watches === undefined ? 'all namespaces' : watches.join(', ')}.</p>
        {warnings.map((text) => <Alert key={text} isInline isPlain variant="warning" title={text} />)}
        <Manifests title="Objects that are created" manifests={objects} />
        <Lines title="CRDs of the newest version" lines={crds} />
        <Lines title="Images of the newest version" lines={images} />
        <Help>The InstallPlan contains the rights of the operator. With manual approval, you see them before they are granted.</Help>
      </CardBody>
    </Card>
  );
}
