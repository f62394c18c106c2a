import { ActionGroup, Button, Checkbox, ExpandableSection, Form, FormGroup, FormSelect, FormSelectOption, HelperText, HelperTextItem, PageSection, Radio, Stack, StackItem, TextInput } from '@patternfly/react-core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useId, useState, type SyntheticEvent } from 'react';
import { useNavigate, useSearchParams } from 'react-router';

import { api, ApiError, unwrap, type Schemas } from '../api/client';
import { DetailsHeader } from '../components/details';
import { Field, Help } from '../components/field';
import { GuardedButton } from '../components/permissions';
import { Manifests, PlanCard, Section } from '../components/plan';
import { ScopedRules } from '../components/source';
import { ErrorState, LoadingState, NothingState, ProblemAlert } from '../components/states';
import { YamlEditor } from '../components/yaml';
import { newDraft, toRequest, versionsOf, type Draft } from './extensiondraft';

const catalogParent = { path: '/catalog', title: 'Catalog' };

/** InstallExtensionPage installs a package as a ClusterExtension: a form, what it would do, and then the button. */
export function InstallExtensionPage() {
  const [parameters] = useSearchParams();
  const name = parameters.get('package') ?? '';
  const offers = useQuery({
    queryKey: ['extension-offers', name],
    queryFn: () => unwrap(api.GET('/api/v1/extension-offers/{package}', { params: { path: { package: name } } })),
    enabled: name !== '',
  });
  return (
    <>
      <DetailsHeader title={`Install ${name}`} parent={catalogParent} />
      <PageSection isFilled>
        {name === '' && <NothingState title="No package is chosen">Choose a package in the catalog.</NothingState>}
        {name !== '' && offers.isPending && <LoadingState what="the catalogs" />}
        {offers.isError && <ErrorState error={offers.error} onRetry={() => void offers.refetch()} />}
        {offers.isSuccess && <InstallForm offers={offers.data.catalogs} initial={newDraft(parameters)} />}
      </PageSection>
    </>
  );
}

function InstallForm({ offers, initial }: { offers: Schemas['OfferedPackage'][]; initial: Draft }) {
  const navigate = useNavigate();
  const [draft, setDraft] = useState(initial);
  const preview = useMutation({ mutationFn: (body: Schemas['ExtensionRequest']) => unwrap(api.POST('/api/v1/extension-previews', { body })) });
  const install = useMutation({
    mutationFn: (body: Schemas['ExtensionRequest']) => unwrap(api.POST('/api/v1/extensions', { body })),
    onSuccess: ({ name }) => void navigate(`/installed/extensions/${encodeURIComponent(name)}`),
  });
  const request = toRequest(draft);
  const change = (fields: Partial<Draft>) => {
    setDraft((before) => ({ ...before, ...fields }));
    preview.reset();
    install.reset();
  };
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (typeof request !== 'string') preview.mutate(request);
  };
  const isReady = preview.isSuccess && preview.data.refusal === undefined;
  return (
    <Stack hasGutter>
      <StackItem>
        <Form onSubmit={submit} isWidthLimited>
          <BundleFields offers={offers} draft={draft} onChange={change} />
          <PlaceFields draft={draft} onChange={change} />
          <AccountFields draft={draft} onChange={change} />
          <ConfigurationField draft={draft} onChange={change} />
          <ActionGroup>
            <Button type="submit" variant={isReady ? 'secondary' : 'primary'} isDisabled={typeof request === 'string'} isLoading={preview.isPending}>Review</Button>
            <GuardedButton
              permissions={[{ verb: 'create', group: 'olm.operatorframework.io', resource: 'clusterextensions' }]} isDisabled={!isReady || install.isPending} isLoading={install.isPending}
              onClick={() => { if (typeof request !== 'string') install.mutate(request); }}
            >
              Install
            </GuardedButton>
          </ActionGroup>
          <HelperText><HelperTextItem>{typeof request === 'string' ? request : 'Review shows what is created, with which rights. The plan can take a minute, because the bundle is pulled.'}</HelperTextItem></HelperText>
        </Form>
      </StackItem>
      {[preview.error, install.error].map((error) => error !== null && (
        <StackItem key={error.message}><ProblemAlert title="Nothing was installed" message={error.message} advice={error instanceof ApiError ? error.advice : undefined} /></StackItem>
      ))}
      {preview.isSuccess && <StackItem><Review preview={preview.data} /></StackItem>}
    </Stack>
  );
}

interface FieldsProps {
  draft: Draft;
  onChange: (fields: Partial<Draft>) => void;
}

function BundleFields({ offers, draft, onChange }: FieldsProps & { offers: Schemas['OfferedPackage'][] }) {
  const id = useId();
  const channels = [...new Set(offers.flatMap((offer) => offer.channels.map((c) => c.name)))];
  const versions = versionsOf(offers, draft);
  return (
    <>
      <Field label="Name" isRequired help="The name of the ClusterExtension.">{(field) => <TextInput id={field} value={draft.name} onChange={(_event, name) => { onChange({ name }); }} />}</Field>
      <FormGroup role="group" label="Catalogs">
        {offers.map(({ catalog, priority }) => (
          <Checkbox
            key={catalog} id={`${id}-${catalog}`} label={catalog} description={priority === 0 ? undefined : `Priority ${priority}`} isChecked={draft.catalogs.includes(catalog)}
            onChange={(_event, checked) => { onChange({ catalogs: checked ? [...draft.catalogs, catalog] : draft.catalogs.filter((name) => name !== catalog) }); }}
          />
        ))}
        <Help>Without a choice, every catalog may provide the package, now and for updates.</Help>
      </FormGroup>
      <Field label="Channel" help="Updates come from this channel only.">
        {(field) => (
          <FormSelect id={field} value={draft.channel} onChange={(_event, channel) => { onChange({ channel }); }}>
            <FormSelectOption value="" label="Every channel" />
            {channels.map((name) => <FormSelectOption key={name} value={name} label={offers.some((o) => o.defaultChannel === name) ? `${name} (default)` : name} />)}
          </FormSelect>
        )}
      </Field>
      <Field label="Version" help="A version, or a range such as >=1.4, <2. Without one, the newest version is installed and updated.">
        {(field) => (
          <>
            <TextInput id={field} value={draft.version} list={`${id}-versions`} onChange={(_event, version) => { onChange({ version }); }} />
            <datalist id={`${id}-versions`}>{versions.map((version) => <option key={version} value={version} />)}</datalist>
          </>
        )}
      </Field>
      <Checkbox
        id={`${id}-safety`} label="Check that changes of CRDs are safe" description="Without the check, an update can lose data or break clients." isChecked={draft.isCRDUpgradeSafe}
        onChange={(_event, isCRDUpgradeSafe) => { onChange({ isCRDUpgradeSafe }); }}
      />
    </>
  );
}

function PlaceFields({ draft, onChange }: FieldsProps) {
  const id = useId();
  return (
    <>
      <Field label="Namespace" isRequired help="The namespaced objects of the bundle go there.">{(field) => <TextInput id={field} value={draft.namespace} onChange={(_event, namespace) => { onChange({ namespace }); }} />}</Field>
      <Checkbox id={id} label="Create the namespace if it does not exist" isChecked={draft.createNamespace} onChange={(_event, createNamespace) => { onChange({ createNamespace }); }} />
    </>
  );
}

function AccountFields({ draft, onChange }: FieldsProps) {
  const id = useId();
  const option = (account: Draft['account'], label: string, description: string) => (
    <Radio id={`${id}-${account}`} name={id} label={label} description={description} isChecked={draft.account === account} onChange={() => { onChange({ account }); }} />
  );
  return (
    <FormGroup role="radiogroup" label="Service account">
      {option('generated', 'Create one with the least rights', 'It gets exactly the rights that this version needs. A later version may need more.')}
      {option('existing', 'Use an existing one', 'It must have the rights already.')}
      {option('none', 'Use the one of operator-controller', 'Some clusters do not allow this.')}
      {draft.account === 'existing' && <TextInput aria-label="Name of the service account" value={draft.serviceAccount} onChange={(_event, serviceAccount) => { onChange({ serviceAccount }); }} />}
    </FormGroup>
  );
}

function ConfigurationField({ draft, onChange }: FieldsProps) {
  return (
    <ExpandableSection toggleText="Configuration">
      <Help>The configuration of the bundle, such as watchNamespace or deploymentConfig.</Help>
      <YamlEditor label="Configuration" value={draft.config} onChange={(config) => { onChange({ config }); }} />
    </ExpandableSection>
  );
}

function Review({ preview }: { preview: Schemas['ExtensionPreview'] }) {
  const rules = preview.accountRules ?? [];
  return (
    <Stack hasGutter>
      <StackItem><PlanCard title="What the installation does" preview={preview} /></StackItem>
      <StackItem>
        <Manifests title="Objects that are created" manifests={preview.objects} />
        {rules.length > 0 && (
          <Section title={`Rights of the new service account (${rules.length})`}>
            <ScopedRules rules={rules} />
          </Section>
        )}
      </StackItem>
    </Stack>
  );
}
