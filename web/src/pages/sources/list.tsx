import { Button, Content, Label, Stack, StackItem, Toolbar, ToolbarContent, ToolbarItem } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { Link } from 'react-router';

import { api, unwrap } from '../../api/client';
import { Conditions, Facts } from '../../components/details';
import { useNamespace } from '../../components/namespace';
import { GuardedButton } from '../../components/permissions';
import { ErrorState, LoadingState, NothingState, ProblemAlert } from '../../components/states';
import { Age } from '../../components/time';
import { actionsFor, catalogKey, describeCount, permissionOn, sourceKey, type Source, type SourceAction } from './data';
import { SourceDialog } from './dialogs';

/** SourceList lists the catalogs of both systems with their health in words. */
export function SourceList() {
  const [namespace] = useNamespace();
  const [chosen, setChosen] = useState<{ source?: Source; action: SourceAction | 'add' }>();
  const sources = useQuery({
    queryKey: ['live', 'clustercatalogs,catalogsources,operatorhubs', 'sources', namespace],
    queryFn: () => unwrap(api.GET('/api/v1/sources', { params: { query: { namespace } } })),
  });
  const counts = useQuery({
    queryKey: ['live', 'clustercatalogs,catalogsources', 'package-counts', namespace],
    queryFn: () => unwrap(api.GET('/api/v1/package-counts', { params: { query: { namespace } } })),
  });
  if (sources.isPending) return <LoadingState what="the catalogs" />;
  if (sources.isError) return <ErrorState error={sources.error} onRetry={() => void sources.refetch()} />;

  const { items, problems = [], hubRevision } = sources.data;
  return (
    <Stack hasGutter>
      {problems.map((p) => (
        <StackItem key={p.kind}><ProblemAlert title={`${p.kind} are missing from this list`} message={p.message} advice={p.advice} isForbidden={p.forbidden} /></StackItem>
      ))}
      <StackItem>
        <Toolbar>
          <ToolbarContent>
            <ToolbarItem><Button onClick={() => { setChosen({ action: 'add' }); }}>Add a catalog</Button></ToolbarItem>
          </ToolbarContent>
        </Toolbar>
        {items.length === 0 && problems.length === 0
          ? <NothingState title="There are no catalogs">Packages are installed from catalogs. Add the image of one to begin.</NothingState>
          : <SourceTable sources={items} counts={counts.data?.catalogs ?? {}} onChoose={(source, action) => { setChosen({ source, action }); }} />}
      </StackItem>
      {chosen !== undefined && <SourceDialog {...chosen} hubRevision={hubRevision} onClose={() => { setChosen(undefined); }} />}
    </Stack>
  );
}

interface Choice { onChoose: (source: Source, action: SourceAction) => void }

function SourceTable({ sources, counts, onChoose }: Choice & { sources: Source[]; counts: Readonly<Record<string, number>> }) {
  const [opened, setOpened] = useState('');
  return (
    <Table aria-label="Catalogs" variant="compact">
      <Thead><Tr><Th screenReaderText="Details" /><Th>Name</Th><Th width={25}>Health</Th><Th width={25}>Content</Th><Th modifier="wrap">Priority</Th><Th modifier="wrap">Polled every</Th><Th modifier="wrap">Last update</Th><Th screenReaderText="Actions" /></Tr></Thead>
      {sources.map((source, index) => {
        const key = sourceKey(source);
        const isOpen = key === opened;
        return (
          <Tbody key={key} isExpanded={isOpen}>
            <Tr>
              <Td expand={{ rowIndex: index, isExpanded: isOpen, onToggle: () => { setOpened(isOpen ? '' : key); } }} />
              <Td dataLabel="Name"><SourceName source={source} /></Td>
              <Td dataLabel="Health"><Health source={source} /></Td>
              <Td dataLabel="Content"><div>{describeCount(counts[catalogKey(source)])}</div><div className="mainstay-message">{source.image ?? source.address ?? (source.configMap === undefined ? '–' : `ConfigMap ${source.configMap}`)}</div></Td>
              <Td dataLabel="Priority">{source.priority}</Td>
              <Td dataLabel="Polled every">{source.pollInterval ?? 'never'}</Td>
              <Td dataLabel="Last update"><Age time={source.updated} /></Td>
              <Td dataLabel="Actions"><Actions source={source} onChoose={onChoose} /></Td>
            </Tr>
            {isOpen && <Tr isExpanded><Td /><Td colSpan={7}><Details source={source} /></Td></Tr>}
          </Tbody>
        );
      })}
    </Table>
  );
}

function SourceName({ source: { kind, namespace, name, displayName, publisher, isDefault, state } }: { source: Source }) {
  const fullName = namespace === undefined ? name : `${namespace}/${name}`;
  return (
    <>
      {state === 'Serving' || state === 'Outdated' ? <Link to={`/catalog?catalog=${encodeURIComponent(fullName)}`}>{displayName ?? name}</Link> : displayName ?? name}
      <div className="mainstay-message">{fullName}{publisher !== undefined && ` by ${publisher}`}</div>
      <Label isCompact variant="outline">{kind === 'OperatorHub' ? 'Default catalog' : kind}</Label>
      {isDefault === true && kind !== 'OperatorHub' && <>{' '}<Label isCompact variant="outline">Default</Label></>}
    </>
  );
}

const states: Readonly<Record<Source['state'], readonly ['success' | 'info' | 'warning' | 'danger', string]>> = {
  Serving: ['success', 'Serving'], Outdated: ['warning', 'Outdated'], NotServing: ['danger', 'Not serving'], Disabled: ['info', 'Disabled'],
};

function Health({ source: { state, text, message, advice } }: { source: Source }) {
  const [status, word] = states[state];
  return (
    <div className="mainstay-sentences">
      <Label isCompact variant="outline" status={status}>{word}</Label> {text}
      {message !== undefined && <div className="mainstay-message">{message}</div>}
      {advice !== undefined && <div className="mainstay-message">{advice}</div>}
    </div>
  );
}

const words: Readonly<Record<SourceAction, string>> = { edit: 'Edit', refresh: 'Poll now', enable: 'Enable', disable: 'Disable', delete: 'Delete' };

function Actions({ source, onChoose }: Choice & { source: Source }) {
  const target = source.isDefault === true ? { ...source, kind: 'OperatorHub' as const } : source;
  return actionsFor(source).map((action) => (
    <GuardedButton
      key={action} variant="link" size="sm" permissions={[permissionOn(target, action === 'delete' ? 'delete' : 'patch')]}
      onClick={() => { onChoose(source, action); }} aria-label={`${words[action]} ${source.name}`}
    >
      {words[action]}
    </GuardedButton>
  ));
}

function Details({ source: { endpoint, resolved, conditions } }: { source: Source }) {
  return (
    <>
      <Facts facts={[['Endpoint', endpoint ?? 'none'], ['Served image', resolved ?? 'not known']]} />
      {conditions === undefined ? <Content component="p">It reports no conditions.</Content> : <Conditions conditions={conditions} />}
    </>
  );
}
