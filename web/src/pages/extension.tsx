import { Card, CardBody, CardTitle, Flex, FormSelect, FormSelectOption, Label, PageSection, Stack, StackItem } from '@patternfly/react-core';
import { CheckCircleIcon, InProgressIcon } from '@patternfly/react-icons';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link, useParams } from 'react-router';

import { api, unwrap, type Schemas } from '../api/client';
import { Conditions, DetailsHeader, Facts } from '../components/details';
import { ExplanationCard } from '../components/explanation';
import { LivenessHint } from '../components/liveness';
import { Changes } from '../components/plan';
import { FirstOperandCard, ProgressCard } from '../components/progress';
import { AddressTab, AddressTabs, Events } from '../components/source';
import { ErrorState, LoadingState, NothingState, ProblemAlert } from '../components/states';
import { Age } from '../components/time';
import { useLive } from '../live';
import { ExtensionActions } from './extensionactions';
import { extensions } from './operands/shared';
import { EditableSource } from './operands/source';

const kinds = ['clusterextensions', 'clusterobjectsets'];
const live = (what: string, name: string) => ['live', kinds.join(','), what, name];

/** ExtensionPage shows a ClusterExtension: how far it is, why it is as it is, the objects of its revisions, and what can be done. */
export function ExtensionPage() {
  const { name = '' } = useParams();
  const liveness = useLive(kinds, '');
  const extension = useQuery({ queryKey: live('extension', name), queryFn: () => unwrap(api.GET('/api/v1/extensions/{name}', { params: { path: { name } } })) });
  const source = useQuery({ queryKey: live('extension-source', name), queryFn: () => unwrap(api.GET('/api/v1/extensions/{name}/source', { params: { path: { name } } })) });
  return (
    <>
      <DetailsHeader title={name}>
        <LivenessHint liveness={liveness} />
        <Flex>
          {source.isSuccess && <ExtensionActions name={name} generation={source.data.generation} />}
          <Link to={`/operands/extensions/${encodeURIComponent(name)}`}>Custom resources</Link>
        </Flex>
      </DetailsHeader>
      <PageSection isFilled>
        {extension.isPending && <LoadingState what="the extension" />}
        {extension.isError && <ErrorState error={extension.error} onRetry={() => void extension.refetch()} />}
        {extension.isSuccess && (
          <AddressTabs label="About the extension">
            <AddressTab name="details" title="Details"><Extension details={extension.data} /></AddressTab>
            <AddressTab name="revisions" title="Revisions"><Revisions name={name} /></AddressTab>
            <AddressTab name="events" title="Events">{source.isSuccess ? <Events source={source.data} /> : <LoadingState what="the events" />}</AddressTab>
            <AddressTab name="yaml" title="YAML">{source.isSuccess ? <EditableSource resource={extensions} manifest={source.data.manifest} /> : <LoadingState what="the object" />}</AddressTab>
          </AddressTabs>
        )}
      </PageSection>
    </>
  );
}

function Extension({ details: { state, explanation } }: { details: Schemas['ExtensionDetails'] }) {
  const newest = (state.revisions ?? []).at(-1);
  const phases = newest?.phases ?? [];
  const isDone = phases.every((phase) => phase.state === 'done');
  const crds = phases.flatMap((phase) => phase.objects ?? []).filter((o) => o.kind === 'CustomResourceDefinition').map((o) => o.name);
  return (
    <Stack hasGutter>
      <StackItem><ExplanationCard explanation={explanation} /></StackItem>
      {!isDone && <StackItem><ProgressCard title="Progress" steps={phases.map((phase) => ({ name: phase.name, state: phase.state, detail: describePhase(phase) }))} /></StackItem>}
      {isDone && state.version !== undefined && <StackItem><FirstOperandCard crds={crds} path={`/operands/extensions/${encodeURIComponent(state.name)}`} /></StackItem>}
      <StackItem>
        <Card>
          <CardTitle>Details</CardTitle>
          <CardBody>
            <Facts
              facts={[
                ['Package', state.package], ['Installed version', state.version ?? 'none'], ['Bundle', state.bundle], ['Namespace', state.namespace],
                ['Service account', state.serviceAccount ?? 'that of operator-controller'],
              ]}
            />
          </CardBody>
        </Card>
      </StackItem>
      {(state.revisions ?? []).map((revision) => <StackItem key={revision.name}><Revision revision={revision} /></StackItem>)}
      {state.conditions !== undefined && (
        <StackItem>
          <Card>
            <CardTitle>Conditions</CardTitle>
            <CardBody><Conditions conditions={state.conditions} /></CardBody>
          </Card>
        </StackItem>
      )}
    </Stack>
  );
}

/** describePhase returns what a phase waits for. */
export function describePhase({ message, objects = [] }: Schemas['PhaseState']): string {
  if (message !== undefined) return message;
  const waiting = objects.find((o) => !o.ready);
  if (waiting === undefined) return '';
  return `${waiting.kind} ${waiting.name}${waiting.message === undefined ? '' : `: ${waiting.message}`}`;
}

function Revisions({ name }: { name: string }) {
  const history = useQuery({ queryKey: live('revisions', name), queryFn: () => unwrap(api.GET('/api/v1/extensions/{name}/revisions', { params: { path: { name } } })) });
  const [to, setTo] = useState(0);
  if (history.isPending) return <LoadingState what="the revisions" />;
  if (history.isError) return <ErrorState error={history.error} onRetry={() => void history.refetch()} />;
  const revisions = history.data.revisions.toReversed();
  if (revisions.length === 0) return <NothingState title="There is no revision yet">The first one is created when a bundle has been chosen.</NothingState>;
  return (
    <Stack hasGutter>
      <StackItem>
        <Table aria-label="Revisions" variant="compact">
          <Thead><Tr><Th>Revision</Th><Th>State</Th><Th>Version</Th><Th>Created</Th><Th>Completed</Th><Th>Message</Th></Tr></Thead>
          <Tbody>
            {revisions.map((r) => (
              <Tr key={r.revision}>
                <Td dataLabel="Revision">{r.revision}</Td><Td dataLabel="State">{r.state}</Td><Td dataLabel="Version">{r.version ?? r.bundle}</Td>
                <Td dataLabel="Created"><Age time={r.created} /></Td><Td dataLabel="Completed"><Age time={r.completed} /></Td><Td dataLabel="Message" className="mainstay-message">{r.message}</Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      </StackItem>
      {revisions.length > 1 && (
        <StackItem>
          <FormSelect aria-label="Revision to compare with the one before" value={to} onChange={(_event, value) => { setTo(Number(value)); }}>
            <FormSelectOption value={0} label="What changed in a revision" isPlaceholder />
            {revisions.slice(0, -1).map((r) => <FormSelectOption key={r.revision} value={r.revision} label={`What changed in revision ${r.revision}`} />)}
          </FormSelect>
          {to !== 0 && <RevisionChanges name={name} to={to} />}
        </StackItem>
      )}
    </Stack>
  );
}

function RevisionChanges({ name, to }: { name: string; to: number }) {
  const diff = useQuery({ queryKey: ['diff', name, to], queryFn: () => unwrap(api.GET('/api/v1/extensions/{name}/diff', { params: { path: { name }, query: { to } } })) });
  if (diff.isPending) return <LoadingState what="the difference" />;
  if (diff.isError) return <ProblemAlert title="The revisions cannot be compared" message={diff.error.message} />;
  return <><p>{diff.data.unchanged} objects are the same as in revision {diff.data.from.revision}.</p><Changes changes={diff.data.changes} /></>;
}

function Revision({ revision }: { revision: Schemas['RevisionState'] }) {
  return (
    <Card>
      <CardTitle>Revision {revision.revision}: version {revision.version ?? 'unknown'}</CardTitle>
      <CardBody>
        {(revision.problems ?? []).map((problem) => <p key={problem} className="mainstay-message">{problem}</p>)}
        <ul className="mainstay-tree">
          {(revision.phases ?? []).map((phase) => (
            <li key={phase.name}>
              <strong>{phase.name}</strong>: {phase.state}
              {phase.message !== undefined && <span className="mainstay-message"> {phase.message}</span>}
              <ul className="mainstay-tree">
                {(phase.objects ?? []).map((o) => <li key={`${o.kind}/${o.namespace ?? ''}/${o.name}`}><ObjectState object={o} /></li>)}
              </ul>
            </li>
          ))}
        </ul>
      </CardBody>
    </Card>
  );
}

function ObjectState({ object }: { object: Schemas['ObjectState'] }) {
  return (
    <>
      {object.ready
        ? <Label isCompact status="success" icon={<CheckCircleIcon />} variant="outline">Ready</Label>
        : <Label isCompact status="info" icon={<InProgressIcon />} variant="outline">Waiting</Label>}
      {' '}{object.kind} {object.namespace === undefined ? object.name : `${object.namespace}/${object.name}`}
      {object.message !== undefined && <span className="mainstay-message">: {object.message}</span>}
    </>
  );
}
