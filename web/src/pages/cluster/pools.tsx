import { Alert, Button, Label, Stack, StackItem } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';

import { api, ApiError, unwrap, type Schemas } from '../../api/client';
import { GuardedButton } from '../../components/permissions';
import { NothingState, ProblemAlert } from '../../components/states';
import { mayChangePools, useWrite } from './data';

type Pool = Schemas['PoolSummary'];

/** NodePools shows the pools of nodes and what their nodes wait for. */
export function NodePools({ pools }: { pools: Pool[] }) {
  if (pools.length === 0) {
    return <NothingState title="The cluster has no pools of nodes">Nothing updates the nodes of this cluster. That needs the machine-config-controller and a MachineConfigPool.</NothingState>;
  }
  const paused = pools.filter((pool) => pool.paused === true);
  return (
    <Stack hasGutter>
      {paused.length > 0 && (
        <StackItem>
          <Alert isInline component="h2" variant="warning" title={`Paused: ${paused.map((pool) => pool.name).join(', ')}`} actionLinks={<ResumeAll pools={paused} />}>
            Nodes of a paused pool get no update and no other change, such as new certificates.
          </Alert>
        </StackItem>
      )}
      {pools.map((pool) => <StackItem key={pool.name}><PoolTable pool={pool} /></StackItem>)}
    </Stack>
  );
}

async function pausePool(name: string, paused: boolean): Promise<unknown> {
  return unwrap(api.POST('/api/v1/cluster/pools/{name}/pause', { params: { path: { name } }, body: { paused } }));
}

function ResumeAll({ pools }: { pools: Pool[] }) {
  const resume = useWrite(async () => { for (const pool of pools) await pausePool(pool.name, false); }, () => undefined);
  return (
    <>
      <GuardedButton variant="link" isInline isLoading={resume.isPending} permissions={mayChangePools} onClick={() => { resume.mutate(undefined); }}>Resume all</GuardedButton>
      {resume.isError && <span role="alert"> {resume.error.message}</span>}
    </>
  );
}

function PoolTable({ pool }: { pool: Pool }) {
  return (
    <Stack hasGutter>
      <StackItem><PoolLine pool={pool} /></StackItem>
      {pool.nodes !== undefined && (
        <StackItem>
          <Table aria-label={`Nodes of pool ${pool.name}`} variant="compact">
            <Thead><Tr><Th>Node</Th><Th>State</Th><Th>Phase</Th><Th>Message</Th></Tr></Thead>
            <Tbody>
              {pool.nodes.map((node) => (
                <Tr key={node.name}>
                  <Td dataLabel="Node">{node.name}</Td>
                  <Td dataLabel="State"><Label isCompact variant="outline" status={nodeStatuses[node.assessment] ?? 'info'}>{node.assessment}</Label></Td>
                  <Td dataLabel="Phase">{node.phase}</Td>
                  <Td dataLabel="Message" className="mainstay-message">{node.message}</Td>
                </Tr>
              ))}
            </Tbody>
          </Table>
        </StackItem>
      )}
    </Stack>
  );
}

const nodeStatuses: Readonly<Record<string, 'success' | 'warning' | 'danger'>> = { Completed: 'success', Degraded: 'danger', Unavailable: 'danger', Excluded: 'warning' };

const poolStates: Readonly<Record<Pool['state'], readonly ['success' | 'info' | 'warning' | 'danger', string]>> = {
  UpToDate: ['success', 'Up to date'], Updating: ['info', 'Updating'], Waiting: ['info', 'Waiting'], Paused: ['warning', 'Paused'], Degraded: ['danger', 'Degraded'],
};

/** PoolLine shows a pool in one line, with the button that pauses or resumes it. */
export function PoolLine({ pool }: { pool: Pool }) {
  const isPaused = pool.paused === true;
  const pause = useWrite((paused: boolean) => pausePool(pool.name, paused), () => undefined);
  const [status, word] = poolStates[pool.state];
  return (
    <>
      <strong>{pool.name}</strong> <Label isCompact variant="outline" status={status}>{word}</Label> {pool.text}{' '}
      {pool.controlPlane === true
        ? <Button variant="link" isInline isAriaDisabled title="The nodes of the control plane are part of every update.">Pause</Button>
        : <GuardedButton variant="link" isInline isLoading={pause.isPending} permissions={mayChangePools} onClick={() => { pause.mutate(!isPaused); }}>{isPaused ? 'Resume' : 'Pause'}</GuardedButton>}
      {pause.isError && <ProblemAlert title="The pool was not changed" message={pause.error.message} advice={pause.error instanceof ApiError ? pause.error.advice : undefined} />}
    </>
  );
}
