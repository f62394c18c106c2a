import { Alert, Button, Card, CardBody, CardTitle, Content, List, ListItem, Progress, Stack, StackItem } from '@patternfly/react-core';

import { api, unwrap, type Schemas } from '../../api/client';
import { LinkedText } from '../../components/linkedtext';
import { GuardedButton } from '../../components/permissions';
import { formatDuration, mayChangeVersion, useWrite } from './data';
import { PoolLine } from './pools';

type Status = Schemas['Status'];
type Outlook = NonNullable<Schemas['ClusterDetails']['outlook']>;

/** UpdateProgress shows how far an update is, what delays it, and why one is refused. */
export function UpdateProgress({ progress, outlook, pools }: { progress: Status; outlook: Outlook; pools: Schemas['PoolSummary'][] }) {
  const { refused, updating, controlPlane } = progress;
  return (
    <Stack hasGutter>
      {refused !== undefined && (
        <StackItem>
          <Alert isInline component="h2" variant="danger" title={`The update to ${refused.target} is refused: ${refused.reason}`} actionLinks={<CancelUpdate />}>
            <LinkedText text={refused.message} />
          </Alert>
        </StackItem>
      )}
      {updating && controlPlane !== undefined && (
        <StackItem>
          <Card>
            <CardTitle>Update to {controlPlane.target}</CardTitle>
            <CardBody>
              <Stack hasGutter>
                <StackItem><ControlPlane controlPlane={controlPlane} outlook={outlook} /></StackItem>
                <StackItem><Nodes progress={progress} pools={pools} /></StackItem>
                <StackItem><Health health={progress.health ?? []} /></StackItem>
              </Stack>
            </CardBody>
          </Card>
        </StackItem>
      )}
    </Stack>
  );
}

function CancelUpdate() {
  const cancel = useWrite(() => unwrap(api.POST('/api/v1/cluster/update/cancel')), () => undefined);
  return (
    <>
      <GuardedButton variant="link" isInline isLoading={cancel.isPending} permissions={mayChangeVersion} onClick={() => { cancel.mutate(undefined); }}>Cancel the update</GuardedButton>
      {cancel.isError && <span role="alert"> {cancel.error.message}</span>}
    </>
  );
}

function ControlPlane({ controlPlane: c, outlook }: { controlPlane: Schemas['ControlPlane']; outlook: Outlook }) {
  const total = c.updated + c.inUpdate + c.waiting;
  const unhealthy = [c.unavailable > 0 ? `${c.unavailable} unavailable` : '', c.degraded > 0 ? `${c.degraded} degraded` : ''].filter((text) => text !== '');
  return (
    <>
      {total > 0 && <Progress title="ClusterOperators" value={c.updated} max={Math.max(total, 1)} label={`${c.updated} of ${total}`} aria-label="Updated ClusterOperators" />}
      <Content component="p">
        {c.assessment}. {describeTime(c, outlook)}{unhealthy.length > 0 && ` ${unhealthy.join(', ')}.`}{(c.updating ?? []).length > 0 && ` Updating now: ${(c.updating ?? []).join(', ')}.`}
      </Content>
    </>
  );
}

/** describeTime says how long an update has taken, and what the server knows about its end. */
export function describeTime({ duration, remaining, estimate }: Pick<Schemas['ControlPlane'], 'duration' | 'remaining' | 'estimate'>, outlook: Outlook): string {
  const taken = `After ${formatDuration(duration)}`;
  switch (outlook) {
    case 'Done':
      return `The control plane is updated, in ${formatDuration(duration)}.`;
    case 'Unknown':
      return `${taken}, the rest cannot be estimated.`;
    case 'Exceeded':
      return `${taken}, it takes longer than the estimated ${formatDuration(estimate)}.`;
    case 'Soon':
      return `${taken}, less than 10 min remain.`;
    case 'Estimated':
      return `${taken}, about ${formatDuration(remaining)} remain.`;
  }
}

function Nodes({ progress: { controlPlaneNodes, workerPools = [] }, pools }: { progress: Status; pools: Schemas['PoolSummary'][] }) {
  const all = [...(controlPlaneNodes === undefined ? [] : [controlPlaneNodes]), ...workerPools];
  return (
    <>
      {all.map((pool) => {
        const known = pools.find((p) => p.name === pool.name);
        return (
          <div key={pool.name}>
            <Progress title={`Nodes of ${pool.name}`} value={pool.completed} max={Math.max(pool.total, 1)} label={`${pool.completed} of ${pool.total}`} aria-label={`Updated nodes of ${pool.name}`} />
            {known !== undefined && <PoolLine pool={known} />}
          </div>
        );
      })}
    </>
  );
}

function Health({ health }: { health: Schemas['Insight'][] }) {
  if (health.length === 0) return <Content component="p">Nothing delays the update.</Content>;
  return (
    <List>
      {health.map((insight) => (
        <ListItem key={`${insight.message}/${insight.resource ?? ''}`}>
          <strong>{insight.level}</strong>: {insight.message} (impact: {insight.impact})
          {insight.description !== undefined && <div className="mainstay-message"><LinkedText text={insight.description} /></div>}
          {insight.reference !== undefined && <Button component="a" variant="link" isInline href={insight.reference} target="_blank" rel="noreferrer">Runbook</Button>}
        </ListItem>
      ))}
    </List>
  );
}
