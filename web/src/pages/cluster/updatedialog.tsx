import { Alert, Checkbox, Content, FormGroup } from '@patternfly/react-core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { api, ApiError, unwrap, type Schemas } from '../../api/client';
import { ConfirmDialog } from '../../components/confirm';
import { LinkedText } from '../../components/linkedtext';
import { LoadingState, ProblemAlert } from '../../components/states';
import { useWrite } from './data';

type Pool = Schemas['PoolSummary'];

/** UpdateDialog shows the plan of an update, and asks for what a person has to confirm. */
export function UpdateDialog({ version, pools, onClose }: { version: string; pools: Pool[]; onClose: () => void }) {
  const plan = useQuery({
    queryKey: ['live', 'clusterversions', 'plan', version],
    queryFn: () => unwrap(api.POST('/api/v1/cluster/update/plan', { body: { version } })),
  });
  const [confirmed, setConfirmed] = useState<readonly string[]>([]);
  const [changed, setChanged] = useState<readonly string[]>([]);
  const workers = pools.filter((pool) => pool.controlPlane !== true);
  const request = useWrite(() => unwrap(api.POST('/api/v1/cluster/update', {
    body: {
      version, confirmed: [...confirmed], ...(plan.data === undefined ? {} : { generation: plan.data.generation }),
      pause: workers.filter((p) => p.paused !== true && changed.includes(p.name)).map((p) => p.name),
      resume: workers.filter((p) => p.paused === true && changed.includes(p.name)).map((p) => p.name),
    },
  })), onClose);
  const isReady = plan.data !== undefined && plan.data.changed && isConfirmed(plan.data, confirmed);
  return (
    <ConfirmDialog
      title={`Update the cluster to ${version}`} action="Update" isDisabled={!isReady} isPending={request.isPending} error={request.error}
      onConfirm={() => { request.mutate(undefined); }} onClose={onClose}
    >
      {plan.isPending && <LoadingState what="the plan of the update" />}
      {plan.isError && <ProblemAlert title="This update is not possible" message={plan.error.message} advice={plan.error instanceof ApiError ? plan.error.advice : undefined} />}
      {plan.isSuccess && <Plan plan={plan.data} confirmed={confirmed} onConfirm={(name) => { setConfirmed(toggle(confirmed, name)); }} />}
      {workers.length > 0 && (
        <FormGroup role="group" isStack label="Nodes" fieldId="pools">
          {workers.map((pool) => (
            <Checkbox
              key={pool.name} id={`pool-${pool.name}`} isChecked={changed.includes(pool.name)} onChange={() => { setChanged(toggle(changed, pool.name)); }}
              label={pool.paused === true ? `Resume the paused pool ${pool.name}` : `Leave pool ${pool.name} at its version: pause it`} description={pool.text}
            />
          ))}
        </FormGroup>
      )}
    </ConfirmDialog>
  );
}

function toggle(names: readonly string[], name: string): string[] {
  return names.includes(name) ? names.filter((n) => n !== name) : [...names, name];
}

/** isConfirmed reports whether all that a plan lists is confirmed. */
export function isConfirmed({ confirmations = [] }: Pick<Schemas['UpdatePlan'], 'confirmations'>, confirmed: readonly string[]): boolean {
  return confirmations.every((c) => confirmed.includes(c.name));
}

function Plan({ plan, confirmed, onConfirm }: { plan: Schemas['UpdatePlan']; confirmed: readonly string[]; onConfirm: (name: string) => void }) {
  if (!plan.changed) return <Content component="p">{plan.message}</Content>;
  return (
    <>
      <Content component="p">The cluster is updated from {plan.from} to {plan.to}. An update to another minor version cannot be undone.</Content>
      <Content component="p" className="mainstay-message">{plan.image}{plan.url !== undefined && <>{' '}<LinkedText text={plan.url} /></>}</Content>
      {(plan.confirmations ?? []).map((c) => (
        <Alert key={c.name} isInline component="h2" variant="warning" title={c.text}>
          {c.message !== undefined && <p>{c.reason !== undefined && <>{c.reason}: </>}<LinkedText text={c.message} /></p>}
          <Checkbox id={`confirm-${c.name}`} label="I have read this, and want to update anyway" isChecked={confirmed.includes(c.name)} onChange={() => { onConfirm(c.name); }} />
        </Alert>
      ))}
    </>
  );
}
