import { Alert, Card, CardBody, CardTitle, ClipboardCopy, Content, ExpandableSection, FormSelect, FormSelectOption, Label, List, ListItem, Sidebar, SidebarContent, SidebarPanel, Stack, StackItem, Tab, Tabs, TabTitleText } from '@patternfly/react-core';
import { useMemo, type ReactNode } from 'react';
import { useSearchParams } from 'react-router';

import type { Schemas } from '../../api/client';
import { Facts } from '../details';
import { VersionGraph } from '../graph';
import { toSafeHTML } from './markdown';
import { chooseVersion, drawUpdates, updateKinds, type PackageDetails } from './versions';

/** PackageTab is a further tab of the page of a package. */
export interface PackageTab {
  key: string;
  title: string;
  content: (version: Schemas['VersionSummary'] | undefined) => ReactNode;
}

/** PackageView shows a package: its description, versions, APIs and examples. The chosen channel, version and tab are in the address. */
export function PackageView({ details, tabs }: { details: PackageDetails; tabs: readonly PackageTab[] }) {
  const [parameters, setParameters] = useSearchParams();
  const choice = chooseVersion(details, parameters.get('channel'), parameters.get('version'));
  const set = (values: Readonly<Record<string, string>>) => {
    setParameters((before) => {
      const next = new URLSearchParams(before);
      for (const [name, value] of Object.entries(values)) {
        if (value === '') next.delete(name);
        else next.set(name, value);
      }
      return next;
    }, { replace: true });
  };
  const all: PackageTab[] = [
    { key: 'description', title: 'Description', content: () => <Description choice={choice} /> },
    { key: 'versions', title: 'Versions', content: () => <Updates details={details} selected={choice.version?.name} onSelect={(version) => { set({ version }); }} /> },
    { key: 'apis', title: 'APIs', content: () => <APIs choice={choice} /> },
    ...tabs,
  ];
  const active = all.find(({ key }) => key === parameters.get('tab')) ?? all[0];
  return (
    <Stack hasGutter>
      <StackItem><Deprecations choice={choice} details={details} /></StackItem>
      <StackItem>
        <Sidebar hasGutter isPanelRight>
          <SidebarContent hasNoBackground>
            <Stack hasGutter>
              <StackItem>
                <Tabs
                  activeKey={active?.key ?? ''} aria-label="About the package" mountOnEnter unmountOnExit
                  onSelect={(_event, key) => { set({ tab: key === 'description' ? '' : String(key) }); }}
                >
                  {all.map(({ key, title, content }) => (
                    <Tab key={key} eventKey={key} title={<TabTitleText>{title}</TabTitleText>}>
                      <div className="mainstay-tab">{content(choice.version)}</div>
                    </Tab>
                  ))}
                </Tabs>
              </StackItem>
            </Stack>
          </SidebarContent>
          <SidebarPanel width={{ default: 'width_100', lg: 'width_33' }}>
            <Card>
              <CardBody>
                <Stack hasGutter>
                  <StackItem><Menus details={details} choice={choice} onChange={set} /></StackItem>
                  <StackItem><PackageFacts details={details} choice={choice} /></StackItem>
                </Stack>
              </CardBody>
            </Card>
          </SidebarPanel>
        </Sidebar>
      </StackItem>
    </Stack>
  );
}

type Choice = ReturnType<typeof chooseVersion>;

function Deprecations({ choice, details }: { choice: Choice; details: PackageDetails }) {
  const messages: string[] = [];
  if (details.deprecated !== undefined) messages.push(`Package: ${details.deprecated}`);
  if (choice.channel?.deprecated !== undefined) messages.push(`Channel ${choice.channel.name}: ${choice.channel.deprecated}`);
  if (choice.version?.deprecated !== undefined) messages.push(`Version ${choice.version.version ?? choice.version.name}: ${choice.version.deprecated}`);
  return (
    <>
      {messages.length > 0 && <Alert isInline variant="warning" title="Deprecated"><List isPlain>{messages.map((text) => <ListItem key={text}>{text}</ListItem>)}</List></Alert>}
      {details.refusal !== undefined && <Alert isInline variant="danger" title="It cannot be installed here">{details.refusal}</Alert>}
      {details.otherPlatform !== undefined && <Alert isInline variant="warning" title="It may not run here">{details.otherPlatform}</Alert>}
    </>
  );
}

function Menus({ details, choice, onChange }: { details: PackageDetails; choice: Choice; onChange: (values: Readonly<Record<string, string>>) => void }) {
  const name = (text: string, deprecated: string | undefined) => (deprecated === undefined ? text : `${text} (deprecated)`);
  return (
    <Facts
      isNarrow
      facts={[
        ['Channel', (
          <FormSelect key="channel" aria-label="Channel" value={choice.channel?.name ?? ''} onChange={(_event, channel) => { onChange({ channel, version: '' }); }}>
            {details.channels.map((c) => <FormSelectOption key={c.name} value={c.name} label={name(c.name === details.defaultChannel ? `${c.name} (default)` : c.name, c.deprecated)} />)}
          </FormSelect>
        )],
        ['Version', (
          <FormSelect key="version" aria-label="Version" value={choice.version?.name ?? ''} onChange={(_event, version) => { onChange({ version }); }}>
            {choice.versions.map((v) => <FormSelectOption key={v.name} value={v.name} label={name(v.version ?? v.name, v.deprecated)} />)}
          </FormSelect>
        )],
      ]}
    />
  );
}

function PackageFacts({ details, choice: { release, version } }: { details: PackageDetails; choice: Choice }) {
  return (
    <Facts
      isNarrow
      facts={[
        ['Provider', <External key="provider" name={release?.provider.name ?? details.provider} url={release?.provider.url} />],
        ['Catalog', details.catalog.replace(':', '/')],
        ['Capability level', release?.capability ?? details.capability],
        ['Install modes', (version?.installModes ?? details.installModes ?? []).join(', ')],
        ['Needs Kubernetes', version?.minKubeVersion === undefined ? '' : `${version.minKubeVersion} or later`],
        ['Architectures', (details.architectures ?? []).join(', ')],
        ['Infrastructure features', (release?.features ?? []).join(', ')],
        ['Valid subscription', (details.validSubscriptions ?? []).join(', ')],
        ['Categories', (details.categories ?? []).join(', ')],
        ['Created', formatDate(release?.created)],
        ['Maturity', release?.maturity],
        ['Support', release?.support],
        ['Repository', <External key="repository" name={release?.repository} url={release?.repository} />],
        ['Bundle image', version?.image === undefined || version.image === '' ? '' : <ClipboardCopy key="image" isReadOnly variant="inline-compact">{version.image}</ClipboardCopy>],
        ['Links', release?.links === undefined ? '' : <List key="links" isPlain>{release.links.map((link) => <ListItem key={link.url}><External name={link.name} url={link.url} /></ListItem>)}</List>],
        ['Maintainers', (release?.maintainers ?? []).map(({ name, email }) => [name, email === undefined ? undefined : `<${email}>`].filter((text) => text !== undefined).join(' ')).join(', ')],
      ]}
    />
  );
}

/** formatDate returns the date of a time. A text that is no time stays as its author wrote it. */
export function formatDate(text: string | undefined): string | undefined {
  return text === undefined ? undefined : (/^(\d{4}-\d{2}-\d{2})[T ]/.exec(text)?.[1] ?? text);
}

/** External links to another site, in a tab that cannot reach this one. The server has removed all but web addresses. */
function External({ name, url }: { name: string | undefined; url: string | undefined }) {
  if (url === undefined || !/^https?:\/\//.test(url)) return <>{name ?? '–'}</>;
  return <a href={url} target="_blank" rel="noopener noreferrer nofollow">{name ?? url}</a>;
}

function Description({ choice: { release } }: { choice: Choice }) {
  const html = useMemo(() => toSafeHTML(release?.description ?? ''), [release]);
  if (html === '') return <Card><CardBody>The author wrote no description.</CardBody></Card>;
  return <Card><CardBody><Content className="mainstay-markdown" dangerouslySetInnerHTML={{ __html: html }} /></CardBody></Card>;
}

function Updates({ details, selected, onSelect }: { details: PackageDetails; selected: string | undefined; onSelect: (version: string) => void }) {
  const graph = useMemo(() => drawUpdates(details, selected), [details, selected]);
  return (
    <Card>
      <CardTitle>Versions and updates</CardTitle>
      <CardBody>
        {(details.updates ?? []).length === 0 && <p>The catalog does not tell which versions update which.</p>}
        {(details.updates ?? []).some(({ kind }) => kind === 'skipRange') && <p>Updates by range are shown for the selected version, and where they follow from no others.</p>}
        {details.omittedUpdates !== undefined && <p>{details.omittedUpdates} further updates are not shown.</p>}
        <VersionGraph name={`Updates of ${details.name}`} nodes={graph.nodes} edges={graph.edges} kinds={updateKinds} selected={selected} onSelect={onSelect} />
      </CardBody>
    </Card>
  );
}

function APIs({ choice: { release, version } }: { choice: Choice }) {
  return (
    <Stack hasGutter>
      <StackItem><APIList title="Provides" apis={release?.provides ?? []} samples={release?.examples ?? []} /></StackItem>
      <StackItem><APIList title="Requires" apis={release?.requires ?? []} samples={[]} /></StackItem>
      {(version?.requires ?? []).length > 0 && (
        <StackItem><Card><CardTitle>Requires from catalogs</CardTitle><CardBody><List>{version?.requires?.map((text) => <ListItem key={text}>{text}</ListItem>)}</List></CardBody></Card></StackItem>
      )}
      <StackItem>
        <Card>
          <CardTitle>Images</CardTitle>
          <CardBody>{(release?.images ?? []).length === 0 ? 'The catalog lists no images.' : <List>{release?.images?.map((image) => <ListItem key={image}>{image}</ListItem>)}</List>}</CardBody>
        </Card>
      </StackItem>
    </Stack>
  );
}

function APIList({ title, apis, samples }: { title: string; apis: readonly Schemas['ProvidedAPI'][]; samples: readonly Schemas['SampleObject'][] }) {
  return (
    <Card>
      <CardTitle>{title}</CardTitle>
      <CardBody>
        {apis.length === 0 && 'Nothing.'}
        <List isPlain>
          {apis.map((api) => (
            <ListItem key={`${api.group}/${api.version}/${api.kind}`}>
              <strong>{api.displayName ?? api.kind}</strong> <Label isCompact variant="outline">{`${api.kind} ${api.group}/${api.version}`}</Label>
              {api.description !== undefined && <div className="mainstay-message">{api.description}</div>}
              {samples.filter((s) => s.kind === api.kind && s.apiVersion === `${api.group}/${api.version}`).map((sample, index) => (
                <ExpandableSection key={`${sample.name ?? ''} ${index}`} toggleText={`Example ${sample.name ?? ''}`}>
                  <ClipboardCopy isCode isReadOnly isExpanded hoverTip="Copy" clickTip="Copied" variant="expansion">{sample.yaml}</ClipboardCopy>
                </ExpandableSection>
              ))}
            </ListItem>
          ))}
        </List>
      </CardBody>
    </Card>
  );
}
