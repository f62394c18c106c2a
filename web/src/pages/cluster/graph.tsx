import { Button, Content, Label } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { api, ApiError, unwrap, type Schemas } from '../../api/client';
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
        : <ReleaseTable releases={releases} current={settings.desired.version} />}
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

function ReleaseTable({ releases, current }: { releases: Schemas['GraphRelease'][]; current: string }) {
  return (
    <Table aria-label="Releases" variant="compact">
      <Thead><Tr><Th>Version</Th><Th>Updates</Th><Th>Updates with known issues</Th><Th>Channels</Th></Tr></Thead>
      <Tbody>
        {releases.map((r) => (
          <Tr key={r.version}>
            <Td dataLabel="Version">{r.version}{r.version === current && <>{' '}<Label isCompact variant="outline" status="info">Current</Label></>}</Td>
            <Td dataLabel="Updates">{r.updates?.join(', ') ?? '–'}</Td>
            <Td dataLabel="Updates with known issues">{r.conditional?.join(', ') ?? '–'}</Td>
            <Td dataLabel="Channels" className="mainstay-message">{r.channels?.join(', ') ?? '–'}</Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}
