import { Button, Content, PageSection, SearchInput, Title, Toolbar, ToolbarContent, ToolbarItem, Tooltip } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useInfiniteQuery } from '@tanstack/react-query';
import { Link, useSearchParams } from 'react-router';

import { api, unwrap, type Schemas } from '../../api/client';
import { LivenessHint } from '../../components/liveness';
import { useNamespace } from '../../components/namespace';
import { formatScalar, getAt } from '../../components/schemaform/schema';
import { ErrorState, LoadingState, NothingState } from '../../components/states';
import { Age } from '../../components/time';
import { useLive } from '../../live';
import { chooseColumns, createAddress, liveKind, missingPermission, objectAddress, useAccess, useDefinition, useResource, type ResourcePath } from './shared';

/** OperandsPage lists the custom resources of a kind. */
export function OperandsPage() {
  const resource = useResource();
  const [namespace] = useNamespace();
  const liveness = useLive([liveKind(resource)], namespace);
  const definition = useDefinition(resource, namespace);
  const pages = useInfiniteQuery({
    queryKey: ['live', liveKind(resource), 'operands', namespace], initialPageParam: '',
    queryFn: ({ pageParam }) => unwrap(api.GET('/api/v1/operands/{group}/{version}/{plural}', { params: { path: resource, query: { namespace, continue: pageParam } } })),
    getNextPageParam: (page) => page.continue,
  });
  const title = definition.data?.displayName ?? definition.data?.kind ?? resource.plural;
  const items = pages.data?.pages.flatMap((page) => page.items) ?? [];
  return (
    <>
      <PageSection>
        <Title headingLevel="h1">{title}</Title>
        <Content component="p">{resource.plural}.{resource.group}, version {resource.version}{namespace === '' ? '' : `, in namespace ${namespace}`}.</Content>
        <LivenessHint liveness={liveness} />
      </PageSection>
      <PageSection isFilled>
        {pages.isPending && <LoadingState what="the objects" />}
        {pages.isError && items.length === 0 && <ErrorState error={pages.error} onRetry={() => void pages.refetch()} />}
        {pages.isSuccess && <Operands resource={resource} namespace={namespace} title={title} items={items} definition={definition.data} />}
        {pages.hasNextPage && <Button variant="link" isLoading={pages.isFetchingNextPage} onClick={() => void pages.fetchNextPage()}>Show more</Button>}
      </PageSection>
    </>
  );
}

interface OperandsProps {
  resource: ResourcePath;
  namespace: string;
  title: string;
  items: readonly Schemas['Operand'][];
  definition: Schemas['OperandDefinition'] | undefined;
}

function Operands({ resource, namespace, title, items, definition }: OperandsProps) {
  const [parameters, setParameters] = useSearchParams();
  const text = parameters.get('text') ?? '';
  const columns = chooseColumns(definition?.statusDescriptors ?? []);
  const setText = (value: string) => {
    setParameters((before) => {
      if (value === '') before.delete('text');
      else before.set('text', value);
      return before;
    }, { replace: true });
  };
  const create = <CreateButton resource={resource} namespace={namespace} kind={definition?.kind ?? resource.plural} />;
  if (items.length === 0) return <NothingState title={`No ${title}`} actions={create}>There is none{namespace === '' ? '' : ` in namespace ${namespace}`}.</NothingState>;

  const isNamespaced = definition?.namespaced === true;
  return (
    <>
      <Toolbar>
        <ToolbarContent>
          <ToolbarItem><SearchInput aria-label="Filter by name or state" placeholder="Filter" value={text} onChange={(_event, value) => { setText(value); }} onClear={() => { setText(''); }} /></ToolbarItem>
          <ToolbarItem>{create}</ToolbarItem>
        </ToolbarContent>
      </Toolbar>
      <Table aria-label={title} variant="compact">
        <Thead>
          <Tr>
            <Th>Name</Th>{isNamespaced && <Th>Namespace</Th>}<Th>State</Th>
            {columns.map((column) => <Th key={column.path.join('.')}>{column.title}</Th>)}
            <Th>Created</Th>
          </Tr>
        </Thead>
        <Tbody>
          {items.filter((item) => matchesOperand(item, text)).map((item) => (
            <Tr key={`${item.namespace ?? ''}/${item.name}`}>
              <Td dataLabel="Name"><Link to={objectAddress(resource, item.namespace ?? '', item.name)}>{item.name}</Link></Td>
              {isNamespaced && <Td dataLabel="Namespace">{item.namespace}</Td>}
              <Td dataLabel="State">{item.state ?? '–'}{item.message !== undefined && <div className="mainstay-message">{item.message}</div>}</Td>
              {columns.map((column) => <Td key={column.path.join('.')} dataLabel={column.title}>{formatScalar(getAt(item.status, column.path))}</Td>)}
              <Td dataLabel="Created"><Age time={item.created} /></Td>
            </Tr>
          ))}
        </Tbody>
      </Table>
    </>
  );
}

/** matchesOperand reports whether an object contains every word of a text. */
export function matchesOperand(item: Schemas['Operand'], text: string): boolean {
  const content = [item.name, item.namespace, item.state, item.message].join('\n').toLowerCase();
  return text.toLowerCase().split(/\s+/).every((word) => content.includes(word));
}

function CreateButton({ resource, namespace, kind }: { resource: ResourcePath; namespace: string; kind: string }) {
  const access = useAccess(resource, namespace);
  if (access.create) return <Button variant="primary" component={(props) => <Link {...props} to={createAddress(resource, namespace)} />}>Create {kind}</Button>;
  return (
    <Tooltip content={`${missingPermission('create', resource, namespace)}${namespace === '' ? ' To create one in a namespace, choose it at the top.' : ''}`}>
      <Button variant="primary" isAriaDisabled>Create {kind}</Button>
    </Tooltip>
  );
}
