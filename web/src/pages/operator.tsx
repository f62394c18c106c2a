import { Alert, Card, CardBody, CardTitle, Flex, PageSection, Stack, StackItem } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from 'react-router';

import { api, unwrap, type Schemas } from '../api/client';
import { Conditions, DetailsHeader, Facts } from '../components/details';
import { ExplanationCard } from '../components/explanation';
import { LivenessHint } from '../components/liveness';
import { FirstOperandCard, isUnderway, ProgressCard } from '../components/progress';
import { AddressTab, AddressTabs, Events, ScopedRules } from '../components/source';
import { StateLabel } from '../components/statelabel';
import { ErrorState, LoadingState, NothingState } from '../components/states';
import { WatchedNamespaces } from '../components/watched';
import { useLive } from '../live';
import { createAddress, subscriptions } from './operands/shared';
import { EditableSource } from './operands/source';
import { OperatorActions } from './operatoractions';

const kinds = ['subscriptions', 'clusterserviceversions', 'installplans', 'catalogsources'];

const live = (what: string, namespace: string, name: string) => ['live', kinds.join(','), what, namespace, name];

/** OperatorPage shows a Subscription of OLM Classic with its plan, its operator and the operator's Deployments, and what can be done. */
export function OperatorPage() {
  const { namespace = '', name = '' } = useParams();
  const path = { namespace, name };
  const liveness = useLive(kinds, namespace);
  const operator = useQuery({
    queryKey: live('subscription', namespace, name),
    queryFn: () => unwrap(api.GET('/api/v1/namespaces/{namespace}/subscriptions/{name}', { params: { path } })),
  });
  const source = useQuery({
    queryKey: live('subscription-source', namespace, name),
    queryFn: () => unwrap(api.GET('/api/v1/namespaces/{namespace}/subscriptions/{name}/source', { params: { path } })),
  });
  const waitingPlan = operator.data?.state.state === 'AwaitingApproval' ? operator.data.state.installPlan?.name : undefined;
  return (
    <>
      <DetailsHeader title={name}>
        <LivenessHint liveness={liveness} />
        <Flex>
          {source.isSuccess && <OperatorActions namespace={namespace} name={name} generation={source.data.generation} waitingPlan={waitingPlan} />}
          <Link to={`/operands/subscriptions/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`}>Custom resources</Link>
        </Flex>
      </DetailsHeader>
      <PageSection isFilled>
        {operator.isPending && <LoadingState what="the operator" />}
        {operator.isError && <ErrorState error={operator.error} onRetry={() => void operator.refetch()} />}
        {operator.isSuccess && (
          <AddressTabs label="About the operator">
            <AddressTab name="details" title="Details"><Operator details={operator.data} source={source.data} /></AddressTab>
            <AddressTab name="permissions" title="Permissions"><Permissions source={source.data} /></AddressTab>
            <AddressTab name="events" title="Events">{source.isSuccess ? <Events source={source.data} /> : <LoadingState what="the events" />}</AddressTab>
            <AddressTab name="yaml" title="YAML">{source.isSuccess ? <EditableSource resource={subscriptions} manifest={source.data.manifest} /> : <LoadingState what="the object" />}</AddressTab>
          </AddressTabs>
        )}
      </PageSection>
    </>
  );
}

function Permissions({ source }: { source: Schemas['Source'] | undefined }) {
  if (source === undefined) return <LoadingState what="the permissions" />;
  if (source.rules === undefined) return <NothingState title="There are no permissions to show">The operator is not installed yet, has none, or you may not read its ClusterServiceVersion.</NothingState>;
  return <ScopedRules rules={source.rules} />;
}

function Operator({ details: { state, explanation }, source }: { details: Schemas['OperatorDetails']; source: Schemas['Source'] | undefined }) {
  const { operator, installPlan, progress = [] } = state;
  const isWatched = operator?.watchesAll === true || (operator?.watches ?? []).length > 0;
  return (
    <Stack hasGutter>
      <StackItem><ExplanationCard explanation={explanation} /></StackItem>
      {isUnderway(state.state) && <StackItem><ProgressCard title="Progress" steps={progress} /></StackItem>}
      {source?.required !== undefined && (
        <StackItem>
          <Alert isInline component="h2" variant="warning" title={`The author of the operator requires a ${source.required.kind}, and there is none`} actionLinks={<Link to={createAddress(source.required, source.required.namespace ?? '')}>Create the {source.required.kind}</Link>} />
        </StackItem>
      )}
      {operator?.phase === 'Succeeded' && <StackItem><FirstOperandCard crds={source?.crds ?? []} path={`/operands/subscriptions/${encodeURIComponent(state.namespace)}/${encodeURIComponent(state.name)}`} /></StackItem>}
      <StackItem>
        <Card>
          <CardTitle>Details</CardTitle>
          <CardBody>
            <Facts
              facts={[
                ['State', <StateLabel key="state" state={state.state} />], ['Package', state.package], ['Channel', state.channel], ['Catalog', state.catalog],
                ['Namespace', state.namespace], ['Managed namespaces', isWatched ? <WatchedNamespaces key="watched" watched={operator ?? {}} /> : undefined], ['Installed version', operator?.version ?? 'none'], ['ClusterServiceVersion', operator?.name],
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
