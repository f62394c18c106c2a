import { Card, CardBody, CardTitle, Content, Gallery, GalleryItem, Label, List, ListItem, PageSection, Stack, StackItem, Title } from '@patternfly/react-core';
import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { api, unwrap, type Schemas } from '../api/client';
import { LinkedText } from '../components/linkedtext';
import { LivenessHint } from '../components/liveness';
import { useNamespace } from '../components/namespace';
import { ErrorState, LoadingState, ProblemAlert } from '../components/states';
import { useLive } from '../live';

type Part = Schemas['HealthPart'];
type Notice = Schemas['Notice'];

const kinds = [
  'clusterextensions', 'subscriptions', 'clusterserviceversions', 'installplans', 'clustercatalogs', 'catalogsources', 'operatorhubs', 'clusterversions', 'clusteroperators',
  'machineconfigpools',
];

/** OverviewPage shows how the cluster is, and what needs a person. */
export function OverviewPage() {
  const [namespace] = useNamespace();
  const liveness = useLive(kinds, namespace);
  const overview = useQuery({
    queryKey: ['live', kinds.join(','), 'overview', namespace],
    queryFn: () => unwrap(api.GET('/api/v1/overview', { params: { query: { namespace } } })),
  });
  return (
    <>
      <PageSection>
        <Title headingLevel="h1">Overview</Title>
        <Content component="p">The health of what is installed and of the cluster{namespace === '' ? '' : `, with extensions and operators of namespace ${namespace}`}.</Content>
        <LivenessHint liveness={liveness} />
      </PageSection>
      <PageSection isFilled>
        {overview.isPending && <LoadingState what="the overview" />}
        {overview.isError && <ErrorState error={overview.error} onRetry={() => void overview.refetch()} />}
        {overview.isSuccess && <Overview overview={overview.data} />}
      </PageSection>
    </>
  );
}

function Overview({ overview: { parts, attention, updates, problems = [] } }: { overview: Schemas['Overview'] }) {
  return (
    <Stack hasGutter>
      <StackItem>
        <Card>
          <CardTitle>Health</CardTitle>
          <CardBody>
            <Gallery hasGutter minWidths={{ default: '190px' }}>
              {parts.map((part) => <GalleryItem key={part.name}><Health part={part} /></GalleryItem>)}
            </Gallery>
          </CardBody>
        </Card>
      </StackItem>
      <StackItem>
        <Notices title={`Needs attention (${attention.length})`} notices={attention} nothing={problems.length === 0 ? 'Nothing needs you.' : 'Nothing of what you may see needs you.'} />
      </StackItem>
      <StackItem><Notices title={`Updates that wait (${updates.length})`} notices={updates} nothing="No update waits." /></StackItem>
      {problems.length > 0 && (
        <StackItem>
          <Stack hasGutter>
            {problems.map((p) => (
              <StackItem key={p.kind}><ProblemAlert title={`This page shows nothing about ${p.kind}`} message={p.message} advice={p.advice} isForbidden={p.forbidden} /></StackItem>
            ))}
          </Stack>
        </StackItem>
      )}
    </Stack>
  );
}

const pages: Readonly<Record<Part['name'], readonly [string, string]>> = {
  installed: ['Installed', '/installed'], catalogs: ['Catalogs', '/sources'], version: ['Cluster version', '/cluster'], nodes: ['Nodes', '/cluster?tab=nodes'],
};

const healths: Readonly<Record<Part['health'], readonly ['success' | 'info' | 'warning' | 'danger' | undefined, string]>> = {
  Good: ['success', 'Good'], Busy: ['info', 'Changing'], Attention: ['danger', 'Needs attention'], Unknown: ['warning', 'Not known'], Absent: [undefined, 'None'],
};

function Health({ part }: { part: Part }) {
  const [title, path] = pages[part.name];
  const [status, word] = healths[part.health];
  return (
    <>
      <Title headingLevel="h2" size="md"><Link to={path}>{title}</Link></Title>
      <Label variant="outline" {...(status === undefined ? {} : { status })}>{word}</Label>
      <Content component="p">{part.text}</Content>
    </>
  );
}

const topics: Readonly<Record<Notice['topic'], readonly ['danger' | 'warning' | 'info', string]>> = {
  Failed: ['danger', 'Not ready'], Approval: ['warning', 'Waits for approval'], Deprecated: ['warning', 'Deprecated'], Catalog: ['danger', 'Catalog'],
  Blocked: ['warning', 'Updates blocked'], Version: ['danger', 'Cluster version'], Operator: ['danger', 'ClusterOperator'], Nodes: ['danger', 'Nodes'], Update: ['info', 'Update'],
};

function Notices({ title, notices, nothing }: { title: string; notices: Notice[]; nothing: string }) {
  return (
    <Card>
      <CardTitle component="h2">{title}</CardTitle>
      <CardBody>
        {notices.length === 0 && nothing}
        <List isPlain isBordered>
          {notices.map((notice) => {
            const [status, word] = topics[notice.topic];
            return (
              <ListItem key={`${notice.topic}/${notice.kind}/${notice.namespace ?? ''}/${notice.name}`}>
                <Label isCompact variant="outline" status={status}>{word}</Label>{' '}
                <Link to={pageOf(notice)}>{notice.kind === 'ClusterVersion' ? 'Cluster version' : `${notice.kind} ${notice.namespace === undefined ? '' : `${notice.namespace}/`}${notice.name}`}</Link>
                <div className="mainstay-message"><LinkedText text={notice.text} /></div>
                {notice.advice !== undefined && <div className="mainstay-message">{notice.advice}</div>}
              </ListItem>
            );
          })}
        </List>
      </CardBody>
    </Card>
  );
}

/** pageOf returns the address of the page on which a person can do something about a notice. */
export function pageOf({ kind, namespace = '', name, topic }: Pick<Notice, 'kind' | 'namespace' | 'name' | 'topic'>): string {
  const path = encodeURIComponent(name);
  switch (kind) {
    case 'ClusterExtension':
      return `/installed/extensions/${path}`;
    case 'Subscription':
      return `/installed/subscriptions/${encodeURIComponent(namespace)}/${path}`;
    case 'ClusterServiceVersion':
      return `/installed?text=${path}`;
    case 'ClusterOperator':
      return `/cluster?tab=operators&operator=${path}`;
    case 'MachineConfigPool':
      return '/cluster?tab=nodes';
    case 'ClusterVersion':
      return topic === 'Version' ? '/cluster?tab=details' : '/cluster?tab=updates';
    default:
      return '/sources';
  }
}
