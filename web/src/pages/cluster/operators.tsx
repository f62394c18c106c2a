import { Content, FormSelect, FormSelectOption, Label, SearchInput, Toolbar, ToolbarContent, ToolbarItem } from '@patternfly/react-core';
import { ExpandableRowContent, Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useQuery } from '@tanstack/react-query';
import { useSearchParams } from 'react-router';

import { api, unwrap, type Schemas } from '../../api/client';
import { Conditions } from '../../components/details';
import { LinkedText } from '../../components/linkedtext';
import { ErrorState, LoadingState, NothingState } from '../../components/states';

type Operator = Schemas['OperatorView'];

const states: Readonly<Record<Operator['state'], readonly ['success' | 'info' | 'warning' | 'danger', string]>> = {
  CannotUpdate: ['warning', 'Cannot update'], Unavailable: ['danger', 'Unavailable'], Degraded: ['danger', 'Degraded'], Progressing: ['info', 'Progressing'],
  Available: ['success', 'Available'], Unknown: ['warning', 'Unknown'],
};

/** Operators lists the ClusterOperators with the conditions behind their states. */
export function Operators() {
  const operators = useQuery({ queryKey: ['live', 'clusteroperators', 'list'], queryFn: () => unwrap(api.GET('/api/v1/cluster/operators')) });
  const [parameters, setParameters] = useSearchParams();
  const state = parameters.get('state') ?? '';
  const text = parameters.get('text') ?? '';
  const set = (name: string, value: string) => {
    setParameters((before) => {
      if (value === '') before.delete(name);
      else before.set(name, value);
      return before;
    }, { replace: true });
  };
  if (operators.isPending) return <LoadingState what="the ClusterOperators" />;
  if (operators.isError) return <ErrorState error={operators.error} onRetry={() => void operators.refetch()} />;
  if (operators.data.items.length === 0) return <NothingState title="There are no ClusterOperators">The operators of a release report their state in ClusterOperators. The release of this cluster has none.</NothingState>;

  const shown = filterOperators(operators.data.items, state, text);
  return (
    <>
      <Toolbar>
        <ToolbarContent>
          <ToolbarItem>
            <FormSelect aria-label="State" value={state} onChange={(_event, value) => { set('state', value); }}>
              <FormSelectOption value="" label={`All states (${operators.data.items.length})`} />
              {Object.entries(states).map(([key, [, word]]) => <FormSelectOption key={key} value={key} label={`${word} (${operators.data.items.filter((o) => o.state === key).length})`} />)}
            </FormSelect>
          </ToolbarItem>
          <ToolbarItem>
            <SearchInput aria-label="Filter by name or message" placeholder="Filter" value={text} onChange={(_event, value) => { set('text', value); }} onClear={() => { set('text', ''); }} />
          </ToolbarItem>
        </ToolbarContent>
      </Toolbar>
      <OperatorTable operators={shown} opened={parameters.get('operator') ?? ''} onOpen={(name) => { set('operator', name); }} />
      {shown.length === 0 && <Content component="p">No ClusterOperator matches the filter.</Content>}
    </>
  );
}

/** filterOperators returns the operators in a state that contain a text. Empty values match all. */
export function filterOperators(operators: readonly Operator[], state: string, text: string): Operator[] {
  const wanted = text.toLowerCase();
  return operators.filter((o) => (state === '' || o.state === state) && `${o.name}\n${o.message ?? ''}`.toLowerCase().includes(wanted));
}

function OperatorTable({ operators, opened, onOpen }: { operators: Operator[]; opened: string; onOpen: (name: string) => void }) {
  return (
    <Table aria-label="ClusterOperators" variant="compact">
      <Thead><Tr><Th screenReaderText="Details" /><Th>Name</Th><Th>State</Th><Th>Version</Th><Th>Message</Th></Tr></Thead>
      {operators.map((o, index) => {
        const isOpen = o.name === opened;
        const [status, word] = states[o.state];
        return (
          <Tbody key={o.name} isExpanded={isOpen}>
            <Tr>
              <Td expand={{ rowIndex: index, isExpanded: isOpen, onToggle: () => { onOpen(isOpen ? '' : o.name); } }} />
              <Td dataLabel="Name">{o.name}</Td>
              <Td dataLabel="State"><Label isCompact variant="outline" status={status}>{word}</Label><div className="mainstay-message">{o.text}</div></Td>
              <Td dataLabel="Version">{o.version ?? '–'}</Td>
              <Td dataLabel="Message" className="mainstay-message">{o.reason !== undefined && <>{o.reason}: </>}{o.message !== undefined && <LinkedText text={o.message} />}</Td>
            </Tr>
            {isOpen && <Tr isExpanded><Td /><Td colSpan={4}><ExpandableRowContent><OperatorDetails operator={o} /></ExpandableRowContent></Td></Tr>}
          </Tbody>
        );
      })}
    </Table>
  );
}

function OperatorDetails({ operator: { conditions = [], versions = [], related = [] } }: { operator: Operator }) {
  return (
    <>
      <Conditions conditions={conditions} />
      {versions.length > 0 && <Content component="p">Versions: {versions.map((v) => `${v.name} ${v.version}`).join(', ')}</Content>}
      {related.length > 0 && (
        <Table aria-label="Related objects" variant="compact">
          <Thead><Tr><Th>Related object</Th><Th>Resource</Th><Th>Group</Th><Th>Namespace</Th></Tr></Thead>
          <Tbody>
            {related.map((r) => (
              <Tr key={`${r.group ?? ''}/${r.resource}/${r.namespace ?? ''}/${r.name ?? ''}`}>
                <Td dataLabel="Related object">{r.name ?? 'all'}</Td><Td dataLabel="Resource">{r.resource}</Td><Td dataLabel="Group">{r.group ?? 'core'}</Td><Td dataLabel="Namespace">{r.namespace ?? '–'}</Td>
              </Tr>
            ))}
          </Tbody>
        </Table>
      )}
    </>
  );
}
