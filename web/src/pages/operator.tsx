import { Card, CardBody, CardTitle, PageSection, Stack, StackItem } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useQuery } from '@tanstack/react-query';
import { useParams } from 'react-router';

import { api, unwrap, type Schemas } from '../api/client';
import { Conditions, DetailsHeader, Facts } from '../components/details';
import { ExplanationCard } from '../components/explanation';
import { LivenessHint } from '../components/liveness';
import { StateLabel } from '../components/statelabel';
import { ErrorState, LoadingState } from '../components/states';
import { useLive } from '../live';

const kinds = ['subscriptions', 'clusterserviceversions', 'installplans', 'catalogsources'];

/** OperatorPage shows a Subscription of OLM Classic with its plan, its operator and the operator's Deployments. */
export function OperatorPage() {
  const { namespace = '', name = '' } = useParams();
  const liveness = useLive(kinds, namespace);
  const operator = useQuery({
    queryKey: ['live', kinds.join(','), 'subscription', namespace, name],
    queryFn: () => unwrap(api.GET('/api/v1/namespaces/{namespace}/subscriptions/{name}', { params: { path: { namespace, name } } })),
  });
  return (
    <>
      <DetailsHeader title={name}><LivenessHint liveness={liveness} /></DetailsHeader>
      <PageSection isFilled>
        {operator.isPending && <LoadingState what="the operator" />}
        {operator.isError && <ErrorState error={operator.error} onRetry={() => void operator.refetch()} />}
        {operator.isSuccess && <Operator details={operator.data} />}
      </PageSection>
    </>
  );
}

function Operator({ details: { state, explanation } }: { details: Schemas['OperatorDetails'] }) {
  const { operator, installPlan } = state;
  return (
    <Stack hasGutter>
      <StackItem><ExplanationCard explanation={explanation} /></StackItem>
      <StackItem>
        <Card>
          <CardTitle>Details</CardTitle>
          <CardBody>
            <Facts
              facts={[
                ['State', <StateLabel key="state" state={state.state} />], ['Package', state.package], ['Channel', state.channel], ['Catalog', state.catalog],
                ['Namespace', state.namespace], ['Installed version', operator?.version ?? 'none'], ['ClusterServiceVersion', operator?.name],
                ['InstallPlan', installPlan === undefined ? undefined : `${installPlan.name}: ${installPlan.phase}, ${installPlan.done} of ${installPlan.steps} objects`],
              ]}
            />
          </CardBody>
        </Card>
      </StackItem>
      {operator?.deployments !== undefined && <StackItem><Deployments deployments={operator.deployments} /></StackItem>}
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

function Deployments({ deployments }: { deployments: Schemas['DeploymentState'][] }) {
  return (
    <Card>
      <CardTitle>Deployments</CardTitle>
      <CardBody>
        <Table aria-label="Deployments" variant="compact">
          <Thead>
            <Tr><Th>Name</Th><Th>Ready</Th><Th>Message</Th></Tr>
          </Thead>
          <Tbody>
            {deployments.map((d) => (
              <Tr key={d.name}>
                <Td dataLabel="Name">{d.name}</Td>
                <Td dataLabel="Ready">{d.ready} of {d.want}</Td>
                <Td dataLabel="Message" className="mainstay-message">{d.message}</Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      </CardBody>
    </Card>
  );
}
