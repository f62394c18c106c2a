import { Button, Content, Label, Stack, StackItem } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';

import { api, unwrap, type Schemas } from '../../api/client';
import { ConfirmDialog } from '../../components/confirm';
import { GuardedButton } from '../../components/permissions';
import { NothingState } from '../../components/states';
import { Age } from '../../components/time';
import { mayChangeVersion, useWrite } from './data';

/** VersionHistory shows the releases that the cluster has had, and the way back to the previous one. */
export function VersionHistory({ settings: { history = [], rollback } }: { settings: Schemas['VersionSettings'] }) {
  if (history.length === 0) return <NothingState title="There is no history">The operator has not begun to apply a release.</NothingState>;
  return (
    <Stack hasGutter>
      {rollback !== undefined && <StackItem><Rollback plan={rollback} /></StackItem>}
      <StackItem>
        <Table aria-label="History" variant="compact">
          <Thead><Tr><Th>Version</Th><Th>State</Th><Th>Signature</Th><Th>Started</Th><Th>Completed</Th><Th>Release image</Th></Tr></Thead>
          <Tbody>
            {history.map((e) => (
              <Tr key={e.image + e.started}>
                <Td dataLabel="Version">{e.version ?? 'unknown'}</Td>
                <Td dataLabel="State"><Label isCompact variant="outline" status={e.state === 'Completed' ? 'success' : 'info'}>{e.state}</Label></Td>
                <Td dataLabel="Signature">
                  {e.verified ? 'Verified' : 'Not verified'}
                  {e.acceptedRisks !== undefined && <div className="mainstay-message">Accepted: {e.acceptedRisks}</div>}
                </Td>
                <Td dataLabel="Started"><Age time={e.started} /></Td>
                <Td dataLabel="Completed"><Age time={e.completed ?? undefined} /></Td>
                <Td dataLabel="Release image" className="mainstay-message">{e.image}</Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      </StackItem>
    </Stack>
  );
}

function Rollback({ plan }: { plan: Schemas['RollbackPlan'] }) {
  const [isOpen, setIsOpen] = useState(false);
  const close = () => { setIsOpen(false); };
  const rollback = useWrite(() => unwrap(api.POST('/api/v1/cluster/rollback')), close);
  if (plan.refusal !== undefined) return <Content component="p"><Button isDisabled variant="secondary">Roll back</Button> Not possible: {plan.refusal}.</Content>;
  return (
    <>
      <GuardedButton variant="secondary" permissions={mayChangeVersion} onClick={() => { setIsOpen(true); }}>Roll back to {plan.to}</GuardedButton>
      {isOpen && (
        <ConfirmDialog title={`Roll back to ${plan.to}`} action="Roll back" isDanger isPending={rollback.isPending} error={rollback.error} onConfirm={() => { rollback.mutate(undefined); }} onClose={close}>
          <Content component="p">The cluster is rolled back from {plan.from} to {plan.to}.</Content>
          <Content component="p" className="mainstay-message">{plan.image}</Content>
          {!plan.completed && <Content component="p">The update to {plan.to} was never completed.</Content>}
        </ConfirmDialog>
      )}
    </>
  );
}
