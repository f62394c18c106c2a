import { Button, Content } from '@patternfly/react-core';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { api, ApiError, unwrap, type Schemas } from '../../api/client';
import { VersionGraph, type GraphEdge, type GraphNode } from '../../components/graph';
import { LoadingState, NothingState, ProblemAlert } from '../../components/states';

/** ReleaseGraph shows the releases that the cluster can reach: one update away as the cluster knows them, or all as the update service does. */
export function ReleaseGraph({ settings }: { settings: Schemas['VersionSettings'] }) {
  const [isAsked, setIsAsked] = useState(false);
  const graph = useQuery({ queryKey: ['updategraph', settings.channel, settings.desired.version], queryFn: () => unwrap(api.GET('/api/v1/cluster/graph')), enabled: isAsked });
  const releases = graph.data?.releases ?? nextReleases(settings);
  return (
    <>
      <Content component="p">
        {graph.data === undefined
          ? 'These are the releases that the cluster knows: its own, and those one update away. The update service knows the rest of the way.'
          : `These are the releases of channel ${graph.data.channel} that the cluster can reach, as ${graph.data.source} lists them.`}
      </Content>
      {graph.data === undefined && <Button variant="secondary" isLoading={graph.isFetching} onClick={() => { setIsAsked(true); }}>Ask the update service</Button>}
      {graph.isError && <ProblemAlert title="The update service could not be asked" message={graph.error.message} advice={graph.error instanceof ApiError ? graph.error.advice : undefined} />}
      {graph.isFetching && <LoadingState what="the update graph" />}
      {releases.length === 0
        ? <NothingState title="The graph is empty">The channel has no release that the cluster can reach.</NothingState>
        : <ReleasePicture releases={releases} current={settings.desired.version} />}
    </>
  );
}

/** nextReleases returns the cluster's release and those one update away. */
export function nextReleases({ desired, minors }: Pick<Schemas['VersionSettings'], 'desired' | 'minors'>): Schemas['GraphRelease'][] {
  const options = minors.flatMap((minor) => minor.updates);
  const targets = options.map(({ release }) => ({ version: release.version, image: release.image }));
  const withIssues = (has: boolean) => options.filter((o) => (o.recommended !== undefined) === has).map((o) => o.release.version);
  return [...targets, { version: desired.version, image: desired.image, updates: withIssues(false), conditional: withIssues(true) }];
}

/** kinds are the words for the updates of a graph. */
const kinds = [['recommended', 'Update'], ['conditional', 'Update with known issues']] as const;

/** graphOf returns releases and the updates between them as a graph. */
export function graphOf(releases: readonly Schemas['GraphRelease'][], current: string): { nodes: GraphNode[]; edges: GraphEdge[] } {
  const versions = new Set(releases.map((r) => r.version));
  const nodes = releases.map((r): GraphNode => ({
    id: r.version, label: r.version, ...(r.channels === undefined ? {} : { description: `In ${r.channels.join(', ')}` }),
    ...(r.version === current ? { state: 'current' as const, badges: ['current'] } : {}),
  }));
  const edges = releases.flatMap((r) => [
    ...(r.updates ?? []).map((to) => ({ from: r.version, to, kind: 'recommended' })), ...(r.conditional ?? []).map((to) => ({ from: r.version, to, kind: 'conditional' })),
  ]);
  return { nodes, edges: edges.filter(({ to }) => versions.has(to)) };
}

function ReleasePicture({ releases, current }: { releases: Schemas['GraphRelease'][]; current: string }) {
  return <VersionGraph name="Releases and the updates between them" kinds={kinds} {...graphOf(releases, current)} />;
}
