import {
  Button, Content, EmptyStateVariant, PageSection, SearchInput, Title, ToggleGroup, ToggleGroupItem, Toolbar, ToolbarContent, ToolbarItem, EmptyState, EmptyStateBody,
} from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr, type ThProps } from '@patternfly/react-table';
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { Link, useSearchParams } from 'react-router';

import { api, unwrap, type Schemas } from '../api/client';
import { LivenessHint } from '../components/liveness';
import { useNamespace } from '../components/namespace';
import { StateLabel } from '../components/statelabel';
import { ErrorState, LoadingState, NothingState, ProblemAlert } from '../components/states';
import { asSentence } from '../components/sentence';
import { Age } from '../components/time';
import { WatchedNamespaces } from '../components/watched';
import { useLive } from '../live';
import { objectAddress, type ResourcePath } from './operands/shared';

type Item = Schemas['Item'];

const kinds = ['clusterextensions', 'subscriptions', 'clusterserviceversions', 'installplans'];

const columns = [
  { key: 'name', title: 'Name' },
  { key: 'state', title: 'State' },
  { key: 'version', title: 'Version' },
  { key: 'installNamespace', title: 'Namespace' },
  { key: 'catalog', title: 'Catalog' },
  { key: 'changed', title: 'Last change' },
] as const;

/** A ClusterServiceVersion without a Subscription has no page of its own: it is not updated, and can only be deleted. */
const clusterServiceVersions: ResourcePath = { group: 'operators.coreos.com', version: 'v1alpha1', plural: 'clusterserviceversions' };

type SortKey = (typeof columns)[number]['key'];

/** InstalledPage lists what is installed, with its state and the sentence behind it. */
export function InstalledPage() {
  const [namespace] = useNamespace();
  const liveness = useLive(kinds, namespace);
  const installed = useQuery({
    queryKey: ['live', kinds.join(','), 'installed', namespace],
    queryFn: () => unwrap(api.GET('/api/v1/installed', { params: { query: { namespace } } })),
  });
  return (
    <>
      <PageSection>
        <Title headingLevel="h1">Installed</Title>
        <Content component="p">Extensions of OLM v1 and operators of OLM Classic{namespace === '' ? '' : ` in namespace ${namespace}`}.</Content>
        <LivenessHint liveness={liveness} />
      </PageSection>
      <PageSection isFilled>
        {installed.isPending && <LoadingState what="what is installed" />}
        {installed.isError && <ErrorState error={installed.error} onRetry={() => void installed.refetch()} />}
        {installed.isSuccess && <Inventory items={installed.data.items} problems={installed.data.problems ?? []} />}
      </PageSection>
    </>
  );
}

function Inventory({ items, problems }: { items: Item[]; problems: Schemas['Problem'][] }) {
  const [parameters, setParameters] = useSearchParams();
  const text = parameters.get('text') ?? '';
  const onlyProblems = parameters.get('show') === 'attention';
  const sort = (parameters.get('sort') ?? 'name') as SortKey;
  const isDescending = parameters.get('order') === 'desc';
  const set = (values: Record<string, string>) => {
    setParameters((before) => {
      for (const [name, value] of Object.entries(values)) {
        if (value === '') before.delete(name);
        else before.set(name, value);
      }
      return before;
    }, { replace: true });
  };

  const shown = useMemo(() => {
    const matching = items.filter((item) => matchesText(item, text) && (!onlyProblems || needsPerson(item)));
    const sorted = matching.toSorted((a, b) => compareItems(a, b, sort));
    return isDescending ? sorted.reverse() : sorted;
  }, [items, text, onlyProblems, sort, isDescending]);

  const sortProps = (index: number): NonNullable<ThProps['sort']> => ({
    columnIndex: index,
    sortBy: { index: columns.findIndex((c) => c.key === sort), direction: isDescending ? 'desc' : 'asc' },
    onSort: (_event, column, direction) => {
      set({ sort: columns[column]?.key ?? 'name', order: direction.startsWith('desc') ? 'desc' : '' });
    },
  });

  return (
    <>
      {problems.map((p) => (
        <ProblemAlert key={p.kind} title={`${p.kind} are missing from this list`} message={p.message} advice={p.advice} isForbidden={p.forbidden} />
      ))}
      {items.length === 0 && problems.length === 0 && (
        <NothingState title="Nothing is installed">Install an extension with 'mainstay extension install PACKAGE', or an operator with 'mainstay subscription install PACKAGE'.</NothingState>
      )}
      {items.length > 0 && (
        <>
          <Toolbar>
            <ToolbarContent>
              <ToolbarItem>
                <SearchInput aria-label="Filter by name, package or message" placeholder="Filter" value={text} onChange={(_event, value) => { set({ text: value }); }} onClear={() => { set({ text: '' }); }} />
              </ToolbarItem>
              <ToolbarItem>
                <ToggleGroup aria-label="Filter by state">
                  <ToggleGroupItem text="All" isSelected={!onlyProblems} onChange={() => { set({ show: '' }); }} />
                  <ToggleGroupItem text={`Need attention (${items.filter((i) => needsPerson(i)).length})`} isSelected={onlyProblems} onChange={() => { set({ show: 'attention' }); }} />
                </ToggleGroup>
              </ToolbarItem>
            </ToolbarContent>
          </Toolbar>
          <Table aria-label="Installed extensions and operators" variant="compact">
            <Thead>
              <Tr>{columns.map((c, index) => <Th key={c.key} modifier="nowrap" sort={sortProps(index)}>{c.title}</Th>)}</Tr>
            </Thead>
            <Tbody>
              {shown.map((item) => <Row key={`${item.kind}/${item.namespace ?? ''}/${item.name}`} item={item} />)}
            </Tbody>
          </Table>
          {shown.length === 0 && (
            <EmptyState variant={EmptyStateVariant.sm} titleText="Nothing matches the filter" headingLevel="h2">
              <EmptyStateBody>
                <Button variant="link" onClick={() => { set({ text: '', show: '' }); }}>Clear the filter</Button>
              </EmptyStateBody>
            </EmptyState>
          )}
        </>
      )}
    </>
  );
}

function Row({ item }: { item: Item }) {
  return (
    <Tr>
      <Td dataLabel="Name">
        <ItemLink item={item} />
        {item.displayName !== undefined && item.displayName !== item.name && <div className="mainstay-message">{item.displayName}</div>}
      </Td>
      <Td dataLabel="State">
        <StateLabel state={item.state} />
        {item.message !== undefined && <div className="mainstay-message mainstay-sentences">{asSentence(item.message)}</div>}
        {item.kind === 'ClusterServiceVersion' && <Link to={`/operands/csvs/${encodeURIComponent(item.namespace ?? '')}/${encodeURIComponent(item.name)}`}>Custom resources</Link>}
      </Td>
      <Td dataLabel="Version">{item.version ?? '–'}</Td>
      <Td dataLabel="Namespace">
        {item.installNamespace}
        {isWatchedKnown(item) && <div className="mainstay-message mainstay-small">Manages <WatchedNamespaces watched={item} /></div>}
      </Td>
      <Td dataLabel="Catalog">{item.catalog ?? '–'}</Td>
      <Td dataLabel="Last change"><Age time={item.changed} /></Td>
    </Tr>
  );
}

function ItemLink({ item }: { item: Item }) {
  switch (item.kind) {
    case 'ClusterExtension':
      return <Link to={`/installed/extensions/${encodeURIComponent(item.name)}`}>{item.name}</Link>;
    case 'Subscription':
      return <Link to={`/installed/subscriptions/${encodeURIComponent(item.namespace ?? '')}/${encodeURIComponent(item.name)}`}>{item.name}</Link>;
    case 'ClusterServiceVersion':
      return <Link to={objectAddress(clusterServiceVersions, item.namespace ?? '', item.name)}>{item.name}</Link>;
  }
}

/** isWatchedKnown reports whether the namespaces that an operator manages are known, and are others than its own. */
function isWatchedKnown({ watchesAll = false, watches = [], installNamespace }: Item): boolean {
  return watchesAll || watches.some((name) => name !== installNamespace);
}

/** needsPerson reports whether the state of an item lasts until a person does something. */
function needsPerson({ urgency }: Item): boolean {
  return urgency === 'Person';
}

/** matchesText reports whether an item contains every word of a text. */
export function matchesText(item: Item, text: string): boolean {
  const content = [item.name, item.displayName, item.package, item.state, item.message, item.installNamespace].join('\n').toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => content.includes(word));
}

/** compareItems orders items by a column, and items that are equal in it by name. */
export function compareItems(a: Item, b: Item, key: SortKey): number {
  const order = (a[key] ?? '').localeCompare(b[key] ?? '', 'en', { numeric: true });
  return order === 0 ? a.name.localeCompare(b.name, 'en') : order;
}
