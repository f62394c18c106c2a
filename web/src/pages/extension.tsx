import { Card, CardBody, CardTitle, Label, PageSection, Stack, StackItem } from '@patternfly/react-core';
import { CheckCircleIcon, InProgressIcon } from '@patternfly/react-icons';
import { useQuery } from '@tanstack/react-query';
import { useParams } from 'react-router';

import { api, unwrap, type Schemas } from '../api/client';
import { Conditions, DetailsHeader, Facts } from '../components/details';
import { ExplanationCard } from '../components/explanation';
import { LivenessHint } from '../components/liveness';
import { ErrorState, LoadingState } from '../components/states';
import { useLive } from '../live';

const kinds = ['clusterextensions', 'clusterobjectsets'];

/** ExtensionPage shows a ClusterExtension: why it is as it is, and the objects of its revisions. */
export function ExtensionPage() {
  const { name = '' } = useParams();
  const liveness = useLive(kinds, '');
  const extension = useQuery({
    queryKey: ['live', kinds.join(','), 'extension', name],
    queryFn: () => unwrap(api.GET('/api/v1/extensions/{name}', { params: { path: { name } } })),
  });
  return (
    <>
      <DetailsHeader title={name}><LivenessHint liveness={liveness} /></DetailsHeader>
      <PageSection isFilled>
        {extension.isPending && <LoadingState what="the extension" />}
        {extension.isError && <ErrorState error={extension.error} onRetry={() => void extension.refetch()} />}
        {extension.isSuccess && <Extension details={extension.data} />}
      </PageSection>
    </>
  );
}

function Extension({ details: { state, explanation } }: { details: Schemas['ExtensionDetails'] }) {
  return (
    <Stack hasGutter>
      <StackItem><ExplanationCard explanation={explanation} /></StackItem>
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
