import { Alert, Content, PageSection, Stack, StackItem, Tab, Tabs, TabTitleText, Title } from '@patternfly/react-core';
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { useSearchParams } from 'react-router';

import { api, unwrap, type Schemas } from '../api/client';
import { LinkedText } from '../components/linkedtext';
import { LivenessHint } from '../components/liveness';
import { ErrorState, LoadingState, ProblemAlert } from '../components/states';
import { useLive } from '../live';
import { AbsentVersion } from './cluster/absence';
import { clusterKey, clusterKinds } from './cluster/data';
import { VersionDetails } from './cluster/details';
import { ReleaseGraph } from './cluster/graph';
import { VersionHistory } from './cluster/history';
import { Operators } from './cluster/operators';
import { NodePools } from './cluster/pools';
import { UpdateProgress } from './cluster/progress';
import { AvailableUpdates } from './cluster/updates';

const tabs = [
  ['updates', 'Updates'], ['details', 'Details'], ['operators', 'ClusterOperators'], ['nodes', 'Nodes'], ['history', 'History'], ['graph', 'Update graph'],
] as const;

/** ClusterPage shows the version of the cluster: its updates, operators, nodes and history. */
export function ClusterPage() {
  const liveness = useLive(clusterKinds, '');
  const cluster = useQuery({ queryKey: clusterKey, queryFn: () => unwrap(api.GET('/api/v1/cluster')) });
  return (
    <>
      <PageSection>
        <Title headingLevel="h1">Cluster</Title>
        <Content component="p">The version of the cluster, which the cluster-version-operator applies and updates.</Content>
        <LivenessHint liveness={liveness} />
      </PageSection>
      <PageSection isFilled>
        {cluster.isPending && <LoadingState what="the version of the cluster" />}
        {cluster.isError && <ErrorState error={cluster.error} onRetry={() => void cluster.refetch()} />}
        {cluster.isSuccess && (cluster.data.settings.absence !== undefined
          ? <AbsentVersion absence={cluster.data.settings.absence} />
          : <Version cluster={cluster.data} />)}
      </PageSection>
    </>
  );
}

function Version({ cluster }: { cluster: Schemas['ClusterDetails'] }) {
  const [parameters, setParameters] = useSearchParams();
  const tab = parameters.get('tab') ?? 'updates';
  const contents: Readonly<Record<(typeof tabs)[number][0], () => ReactNode>> = {
    updates: () => <AvailableUpdates cluster={cluster} />,
    details: () => <VersionDetails settings={cluster.settings} />,
    operators: () => <Operators />,
    nodes: () => <NodePools pools={cluster.pools ?? []} />,
    history: () => <VersionHistory settings={cluster.settings} />,
    graph: () => <ReleaseGraph settings={cluster.settings} />,
  };
  return (
    <Stack hasGutter>
      <StackItem><Summary summary={cluster.settings.summary} /></StackItem>
      {(cluster.problems ?? []).map((p) => (
        <StackItem key={p.kind + p.message}>
          <ProblemAlert title={`This page shows nothing about ${p.kind}`} message={p.message} advice={p.advice} isForbidden={p.forbidden} />
        </StackItem>
      ))}
      {cluster.progress !== undefined && <StackItem><UpdateProgress progress={cluster.progress} outlook={cluster.outlook ?? 'Unknown'} pools={cluster.pools ?? []} /></StackItem>}
      <StackItem>
        <Tabs activeKey={tab} aria-label="Parts of the page" onSelect={(_event, key) => { setParameters({ tab: String(key) }); }}>
          {tabs.map(([key, title]) => (
            <Tab key={key} eventKey={key} title={<TabTitleText>{title}</TabTitleText>}>
              {tab === key && <div className="mainstay-tab">{contents[key]()}</div>}
            </Tab>
          ))}
        </Tabs>
      </StackItem>
    </Stack>
  );
}

const variants: Readonly<Record<Schemas['ClusterVersionSummary']['state'], 'success' | 'info' | 'warning' | 'danger'>> = {
  Invalid: 'danger', NotReconciled: 'warning', ReleaseNotAccepted: 'danger', UpdatingFailing: 'danger', Failing: 'danger', Updating: 'info', NoChannel: 'info',
  NotRetrievingUpdates: 'warning', UpdatesAvailable: 'info', UpToDate: 'success',
};

function Summary({ summary }: { summary: Schemas['ClusterVersionSummary'] }) {
  return (
    <Alert isInline component="h2" variant={variants[summary.state]} title={summary.text}>
      {summary.message !== undefined && <p>{summary.reason !== undefined && <>{summary.reason}: </>}<LinkedText text={summary.message} /></p>}
      {summary.advice !== undefined && <p>{summary.advice}</p>}
    </Alert>
  );
}
