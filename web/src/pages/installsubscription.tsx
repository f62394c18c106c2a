import { ActionGroup, Alert, Button, Card, CardBody, CardTitle, Checkbox, ExpandableSection, Form, FormGroup, FormSelect, FormSelectOption, PageSection, Radio, Stack, StackItem, TextInput } from '@patternfly/react-core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useId, useState, type FocusEvent, type SyntheticEvent } from 'react';
import { Link, useNavigate, useSearchParams } from 'react-router';

import { api, ApiError, unwrap, type Schemas } from '../api/client';
import { DetailsHeader } from '../components/details';
import { Field, Help } from '../components/field';
import { GuardedButton } from '../components/permissions';
import { Lines, Manifests } from '../components/plan';
import { ErrorState, LoadingState, NothingState, ProblemAlert } from '../components/states';
import { completeDraft, mustApprove, newDraft, suggestedNamespace, tokens, toRequest, type Draft } from './subscriptiondraft';

const catalogParent = { path: '/catalog', title: 'Catalog' };

/** InstallSubscriptionPage installs an operator of OLM Classic: a form, what it would do, and then the button. */
export function InstallSubscriptionPage() {
  const [parameters] = useSearchParams();
  const [draft, setDraft] = useState(() => newDraft(parameters));
  // Until a namespace is chosen, the packages of the global catalogs are asked for.
  const namespace = draft.namespace === '' ? 'default' : draft.namespace;
  const { package: name, catalog } = draft;
  const offer = useQuery({
    queryKey: ['subscription-offer', namespace, name, catalog],
    queryFn: () => unwrap(api.GET('/api/v1/namespaces/{namespace}/subscription-offers/{package}', { params: { path: { namespace, package: name }, query: { catalog } } })),
    enabled: name !== '',
    placeholderData: (before) => before,
  });
  return (
    <>
      <DetailsHeader title={`Install ${offer.data?.displayName ?? name}`} parent={catalogParent} />
      <PageSection isFilled>
        {name === '' && <NothingState title="No package is chosen">Choose a package in the catalog.</NothingState>}
        {name !== '' && offer.isPending && <LoadingState what="the catalogs" />}
        {offer.isError && <ErrorState error={offer.error} onRetry={() => void offer.refetch()} />}
        {offer.data !== undefined && !offer.isError && <InstallForm offer={offer.data} draft={completeDraft(draft, offer.data)} onChange={(fields) => { setDraft((before) => ({ ...before, ...fields })); }} />}
      </PageSection>
    </>
  );
}

interface FormProps {
  offer: Schemas['Offer'];
  draft: Draft;
  onChange: (fields: Partial<Draft>) => void;
}

function InstallForm({ offer, draft, onChange }: FormProps) {
  const navigate = useNavigate();
  const path = { namespace: draft.namespace };
  const preview = useMutation({ mutationFn: (body: Schemas['SubscriptionRequest']) => unwrap(api.POST('/api/v1/namespaces/{namespace}/subscription-previews', { params: { path }, body })) });
  const install = useMutation({
    mutationFn: (body: Schemas['SubscriptionRequest']) => unwrap(api.POST('/api/v1/namespaces/{namespace}/subscriptions', { params: { path }, body })),
    onSuccess: ({ name }) => void navigate(`/installed/subscriptions/${encodeURIComponent(draft.namespace)}/${encodeURIComponent(name)}`),
  });
  const request = toRequest(draft, offer);
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
          <VersionFields {...fields} />
          <NamespaceFields {...fields} />
          <ModeFields {...fields} />
          <ApprovalFields {...fields} />
          <TokenFields {...fields} />
          <ActionGroup>
            <Button type="submit" variant={preview.isSuccess ? 'secondary' : 'primary'} isDisabled={typeof request === 'string'} isLoading={preview.isPending}>Review</Button>
            <GuardedButton
              permissions={[{ verb: 'create', group: 'operators.coreos.com', resource: 'subscriptions', namespace: draft.namespace }]} isDisabled={!preview.isSuccess || install.isPending} isLoading={install.isPending}
              onClick={() => { if (typeof request !== 'string') install.mutate(request); }}
            >
              Install
            </GuardedButton>
          </ActionGroup>
          <Help>{typeof request === 'string' ? request : 'Review shows what is created.'}</Help>
        </Form>
      </StackItem>
      {[preview.error, install.error].map((error) => error !== null && (
        <StackItem key={error.message}><ProblemAlert title="Nothing was installed" message={error.message} advice={error instanceof ApiError ? error.advice : undefined} /></StackItem>
      ))}
      {preview.isSuccess && <StackItem><Review preview={preview.data} /></StackItem>}
    </Stack>
  );
}

function VersionFields({ offer, draft, onChange }: FormProps) {
  const channel = offer.channels.find((c) => c.name === draft.channel);
  return (
    <>
      <Field label="Channel" help={channel?.deprecated === undefined ? 'Upgrades come from this channel.' : `This channel is deprecated: ${channel.deprecated}`}>
        {(id) => (
          <FormSelect id={id} value={draft.channel} onChange={(_event, name) => { onChange({ channel: name, csv: '' }); }}>
            {offer.channels.map((c) => <FormSelectOption key={c.name} value={c.name} label={`${c.name}${c.default === true ? ' (default)' : ''}${c.deprecated === undefined ? '' : ' – deprecated'}`} />)}
          </FormSelect>
        )}
      </Field>
      <Field label="Version" help="The version to install first.">
        {(id) => (
          <FormSelect id={id} value={draft.csv} onChange={(_event, csv) => { onChange({ csv }); }}>
            {(channel?.versions ?? []).map((v) => <FormSelectOption key={v.name} value={v.head === true ? '' : v.name} label={`${v.version ?? v.name}${v.head === true ? ' (newest)' : ''}${v.deprecated === undefined ? '' : ' – deprecated'}`} />)}
          </FormSelect>
        )}
      </Field>
    </>
  );
}

function NamespaceFields({ offer, draft, onChange }: FormProps) {
  const id = useId();
  const suggested = suggestedNamespace(offer, draft.channel);
  return (
    <>
      <Field label="Namespace" isRequired help={<NamespaceHelp offer={offer} draft={draft} />}>
        {(field) => <TextInput id={field} key={draft.namespace} defaultValue={draft.namespace} onBlur={(event: FocusEvent<HTMLInputElement>) => { onChange({ namespace: event.currentTarget.value.trim() }); }} />}
      </Field>
      {draft.namespace !== suggested && <Button variant="link" isInline onClick={() => { onChange({ namespace: suggested }); }}>Use {suggested}</Button>}
      <Checkbox id={id} label="Create the namespace if it does not exist" isChecked={draft.createNamespace} onChange={(_event, createNamespace) => { onChange({ createNamespace }); }} />
    </>
  );
}

function NamespaceHelp({ offer, draft }: Pick<FormProps, 'offer' | 'draft'>) {
  if (draft.namespace === '') return 'The operator runs there.';
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
  const modes = offer.details.find((d) => d.channel === draft.channel)?.modes ?? [];
  const option = (mode: Draft['mode'], label: string, needed: readonly string[]) => {
    const isSupported = mode === '' || modes.length === 0 || needed.some((m) => modes.includes(m));
    return (
      <Radio
        id={`${id}-${mode}`} name={id} label={label} description={isSupported ? undefined : 'The operator does not support this.'} isDisabled={!isSupported}
        isChecked={draft.mode === mode} onChange={() => { onChange({ mode }); }}
      />
    );
  };
  return (
    <FormGroup role="radiogroup" label="Install mode">
      {option('', modes.length === 0 || modes.includes('AllNamespaces') ? 'Watch all namespaces' : 'Watch what the operator supports', [])}
      {option('own', 'Watch only its own namespace', ['OwnNamespace'])}
      {option('others', 'Watch other namespaces', ['SingleNamespace', 'MultiNamespace'])}
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
      <Radio id={`${id}-manual`} name={id} label="Manual" description="All installations and upgrades in the namespace wait for an approval. You see their rights before." isChecked={isManual} onChange={() => { onChange({ isManual: true }); }} />
    </FormGroup>
  );
}

function TokenFields({ offer, draft, onChange }: FormProps) {
  const supported = offer.details.find((d) => d.channel === draft.channel)?.clouds ?? [];
  const clouds = Object.entries(tokens).filter(([cloud]) => supported.includes(cloud));
  if (clouds.length === 0) return null;
  return (
    <ExpandableSection toggleText="Short-lived credentials of a cloud">
      <Help>Fill these in if the cluster uses short-lived credentials. Then choose manual approval, because a new version may need other rights in the cloud.</Help>
      {clouds.flatMap(([cloud, variables]) => variables.map(([variable, label]) => (
        <Field key={variable} label={`${cloud.toUpperCase()}: ${label}`} help={`The environment variable ${variable} of the operator.`}>
          {(id) => <TextInput id={id} value={draft.env[variable] ?? ''} onChange={(_event, value) => { onChange({ env: { ...draft.env, [variable]: value }, isManual: true }); }} />}
        </Field>
      )))}
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
