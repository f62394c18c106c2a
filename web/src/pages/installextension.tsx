import { ActionGroup, Button, Checkbox, ExpandableSection, Form, FormGroup, FormSelect, FormSelectOption, HelperText, HelperTextItem, PageSection, Radio, Stack, StackItem, TextInput } from '@patternfly/react-core';
import { useMutation, useQuery } from '@tanstack/react-query';
import { useId, useState, type SyntheticEvent } from 'react';
import { useNavigate, useSearchParams } from 'react-router';

import { api, ApiError, unwrap, type Schemas } from '../api/client';
import { CatalogLink } from '../components/cataloglink';
import { ConfigurationEditor, StaleConfiguration } from '../components/configuration';
import { DetailsHeader } from '../components/details';
import { Field, Help } from '../components/field';
import { GuardedButton } from '../components/permissions';
import { Manifests, PlanCard, Section } from '../components/plan';
import { ScopedRules } from '../components/source';
import { ErrorState, LoadingState, NothingState, ProblemAlert } from '../components/states';
import { ViewToggle } from '../components/viewtoggle';
import { YamlEditor } from '../components/yaml';
import { isSame, type Fault } from '../components/yamltext';
import { completeDraft, defaultAccount, hasOtherSelector, newDraft, readYaml, toConfigRequest, toRequest, toYaml, versionsOf, type Draft } from './extensiondraft';
import { listNames, toFaults } from './operands/shared';

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
        {offers.isError && <ErrorState error={offers.error} onRetry={() => void offers.refetch()} actions={<CatalogLink />} />}
        {offers.isSuccess && <InstallForm offers={offers.data} initial={newDraft(parameters)} />}
      </PageSection>
    </>
  );
}

function InstallForm({ offers, initial }: { offers: Schemas['OfferedPackages']; initial: Draft }) {
  const navigate = useNavigate();
  const [chosen, setDraft] = useState(initial);
  // The namespace whose service accounts are listed. It follows the field when the focus leaves it.
  const [place, setPlace] = useState(initial.namespace);
  const listed = useAccounts(place);
  const accounts = place === chosen.namespace ? listed : none;
  const draft = completeDraft(chosen, accounts);
  const preview = useMutation({ mutationFn: (body: Schemas['ExtensionRequest']) => unwrap(api.POST('/api/v1/extension-previews', { body })) });
  const install = useMutation({
    mutationFn: (body: Schemas['ExtensionRequest']) => unwrap(api.POST('/api/v1/extensions', { body })),
    onSuccess: ({ name }) => void navigate(`/installed/extensions/${encodeURIComponent(name)}`),
  });
  const configuration = useConfiguration();
  const request = toRequest(draft);
  const change = (fields: Partial<Draft>) => {
    setDraft((before) => ({ ...before, ...fields }));
    preview.reset();
    install.reset();
    configuration.check.reset();
  };
  const switchView = (isYaml: boolean) => {
    change(isYaml ? { isYaml, object: toYaml(draft), account: draft.account, serviceAccount: draft.serviceAccount } : { isYaml });
    setPlace(draft.namespace);
  };
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (typeof request === 'string') return;
    preview.mutate(request);
    configuration.check.mutate({ choice: toConfigRequest(draft), namespace: draft.namespace, ...(request.config !== undefined && { config: request.config }) });
  };
  const faults = toFaults(configuration.check.data?.faults ?? []);
  const isReviewing = preview.isPending || configuration.check.isPending;
  // The list of service accounts can arrive after the review, and change what would be installed.
  const isReviewed = preview.isSuccess && isSame(preview.variables, request);
  const isReady = isReviewed && preview.data.refusal === undefined && !isReviewing && faults.length === 0;
  return (
    <Stack hasGutter>
      <StackItem>
        <Form onSubmit={submit} isWidthLimited>
          <ViewToggle label="How to edit the extension" isYaml={draft.isYaml} text={draft.isYaml ? draft.object : draft.config} onChange={switchView} />
          {draft.isYaml && <YamlFields draft={draft} onChange={change} faults={faults} />}
          {!draft.isYaml && (
            <>
              <BundleFields offers={offers} draft={draft} onChange={change} />
              <PlaceFields draft={draft} onChange={change} onPlaced={() => { setPlace(draft.namespace); }} />
              <AccountFields draft={draft} onChange={change} accounts={accounts} />
              <ConfigurationField draft={draft} onChange={change} configuration={configuration} faults={faults} />
            </>
          )}
          <ActionGroup>
            <Button type="submit" variant={isReady ? 'secondary' : 'primary'} isDisabled={typeof request === 'string'} isLoading={isReviewing}>Review</Button>
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

const none: readonly string[] = [];

/** useAccounts returns the service accounts of a namespace. The list is empty if the user may not list them. */
function useAccounts(namespace: string): readonly string[] {
  const names = useQuery({
    queryKey: ['names', 'ServiceAccount', namespace], enabled: namespace !== '', retry: false,
    queryFn: () => listNames(namespace)({ group: '', version: 'v1', kind: 'ServiceAccount' }),
  });
  return names.data ?? none;
}

interface FieldsProps {
  draft: Draft;
  onChange: (fields: Partial<Draft>) => void;
}

/** YamlFields edit the ClusterExtension as YAML. Faults are those of its configuration. */
function YamlFields({ draft, onChange, faults }: FieldsProps & { faults: readonly Fault[] }) {
  const id = useId();
  const placed = faults.map(({ path, message }) => ({ message, path: ['spec', 'config', 'inline', ...path] }));
  return (
    <>
      <YamlEditor label="ClusterExtension" value={draft.object} onChange={(text) => { onChange(readYaml(draft, text)); }} faults={placed} />
      <NamespaceCheckbox draft={draft} onChange={onChange} />
      {draft.account !== 'none' && (
        <Checkbox
          id={id} label="Create the service account with the least rights" isChecked={draft.account === 'generated'}
          onChange={(_event, checked) => { onChange({ account: checked ? 'generated' : 'existing', serviceAccount: draft.serviceAccount === '' ? defaultAccount(draft.name) : draft.serviceAccount }); }}
        />
      )}
    </>
  );
}

function BundleFields({ offers, draft, onChange }: FieldsProps & { offers: Schemas['OfferedPackages'] }) {
  const id = useId();
  const channels = [...new Set(offers.catalogs.flatMap((offer) => offer.channels.map((c) => c.name)))];
  const versions = versionsOf(offers, draft);
  return (
    <>
      <Field label="Name" isRequired help="The name of the ClusterExtension.">{(field) => <TextInput id={field} value={draft.name} onChange={(_event, name) => { onChange({ name }); }} />}</Field>
      <FormGroup role="group" label="Catalogs">
        {offers.catalogs.map(({ catalog, priority }) => (
          <Checkbox
            key={catalog} id={`${id}-${catalog}`} label={catalog} description={priority === 0 ? undefined : `Priority ${priority}`} isChecked={draft.catalogs.includes(catalog)}
            onChange={(_event, checked) => { onChange({ catalogs: checked ? [...draft.catalogs, catalog] : draft.catalogs.filter((name) => name !== catalog) }); }}
          />
        ))}
        <Help>{hasOtherSelector(draft) ? 'Without a choice, the selector in the YAML decides.' : 'Without a choice, every catalog may provide the package, now and for updates.'}</Help>
      </FormGroup>
      <Field label="Channel" help="Updates come from this channel only.">
        {(field) => (
          <FormSelect id={field} value={draft.channels.join(', ')} onChange={(_event, channel) => { onChange({ channels: channel === '' ? [] : [channel] }); }}>
            <FormSelectOption value="" label="Every channel" />
            {draft.channels.length > 1 && <FormSelectOption value={draft.channels.join(', ')} label={draft.channels.join(', ')} isDisabled />}
            {channels.map((name) => <FormSelectOption key={name} value={name} label={offers.catalogs.some((o) => o.defaultChannel === name) ? `${name} (default)` : name} />)}
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

function PlaceFields({ draft, onChange, onPlaced }: FieldsProps & { onPlaced: () => void }) {
  return (
    <>
      <Field label="Namespace" isRequired help="The namespaced objects of the bundle go there.">
        {(field) => <TextInput id={field} value={draft.namespace} onChange={(_event, namespace) => { onChange({ namespace }); }} onBlur={onPlaced} />}
      </Field>
      <NamespaceCheckbox draft={draft} onChange={onChange} />
    </>
  );
}

function NamespaceCheckbox({ draft, onChange }: FieldsProps) {
  return <Checkbox id={useId()} label="Create the namespace if it does not exist" isChecked={draft.createNamespace} onChange={(_event, createNamespace) => { onChange({ createNamespace }); }} />;
}

function AccountFields({ draft, onChange, accounts }: FieldsProps & { accounts: readonly string[] }) {
  const id = useId();
  const option = (account: Draft['account'], label: string, description: string) => (
    <Radio id={`${id}-${account}`} name={id} label={label} description={description} isChecked={draft.account === account} onChange={() => { onChange({ account, serviceAccount: '' }); }} />
  );
  return (
    <FormGroup role="radiogroup" label="Service account">
      {option('generated', 'Create one with the least rights', 'It gets exactly the rights that this version needs. A later version may need more.')}
      {option('existing', 'Use an existing one', 'It must have the rights already.')}
      {option('none', 'Use the one of operator-controller', 'Some clusters do not allow this.')}
      {draft.account === 'existing' && (
        <>
          <TextInput
            aria-label="Name of the service account" value={draft.serviceAccount} list={`${id}-accounts`} autoComplete="off"
            onChange={(_event, serviceAccount) => { onChange({ account: 'existing', serviceAccount }); }}
          />
          <datalist id={`${id}-accounts`}>{accounts.map((name) => <option key={name} value={name} />)}</datalist>
          {accounts.includes(draft.serviceAccount) && <Help>It exists in the namespace.</Help>}
        </>
      )}
    </FormGroup>
  );
}

interface ConfigurationQuestion {
  choice: Schemas['ExtensionConfigRequest'];
  namespace?: string;
  config?: Record<string, unknown>;
}

/** useConfiguration reads which configuration the chosen bundle accepts, and checks a configuration. Both pull the bundle. */
function useConfiguration() {
  const [known, setKnown] = useState<{ choice: Schemas['ExtensionConfigRequest']; bundle: Schemas['ExtensionConfig'] }>();
  const options = {
    mutationFn: ({ choice, ...checked }: ConfigurationQuestion) => unwrap(api.POST('/api/v1/extension-configs', { body: { ...choice, ...checked } })),
    onSuccess: (bundle: Schemas['ExtensionConfig'], { choice }: ConfigurationQuestion) => { setKnown({ choice, bundle }); },
  };
  return { known, read: useMutation(options), check: useMutation(options) };
}

interface ConfigurationFieldProps extends FieldsProps {
  configuration: ReturnType<typeof useConfiguration>;
  faults: readonly Fault[];
}

function ConfigurationField({ draft, onChange, configuration: { known, read }, faults }: ConfigurationFieldProps) {
  const [isChosen, setChosen] = useState<boolean>();
  const isOpen = isChosen ?? faults.length > 0;
  const choice = toConfigRequest(draft);
  const toggle = (open: boolean) => {
    setChosen(open);
    if (open && known === undefined) read.mutate({ choice });
  };
  // What is edited stays open, also when its faults are gone.
  const edit = (config: string) => {
    setChosen(true);
    onChange({ config });
  };
  return (
    <ExpandableSection toggleText="Configuration" isExpanded={isOpen} onToggle={(_event, open) => { toggle(open); }}>
      {isOpen && (
        <>
          <Help>The configuration of the bundle, such as watchNamespace or deploymentConfig.</Help>
          {read.isPending && <LoadingState what="the bundle" />}
          {read.isError && known === undefined && <ErrorState error={read.error} onRetry={() => { read.mutate({ choice }); }} />}
          {known !== undefined && !isSame(known.choice, choice) && !read.isPending && <StaleConfiguration onRead={() => { read.mutate({ choice }); }} />}
          {known !== undefined && <ConfigurationEditor text={draft.config} onChange={edit} bundle={known.bundle} faults={faults} />}
        </>
      )}
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
