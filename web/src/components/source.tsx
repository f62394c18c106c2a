import { PageSection, Tab, Tabs, TabTitleText } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { Children, isValidElement, type ReactElement, type ReactNode } from 'react';
import { useSearchParams } from 'react-router';

import type { Schemas } from '../api/client';
import { PermissionRules } from './permissions';
import { NothingState, ProblemAlert } from './states';
import { Age } from './time';
import { YamlViewer } from './yaml';

/** AddressTab is a tab of AddressTabs. */
export function AddressTab({ children }: { name: string; title: string; children: ReactNode }) {
  return <PageSection className="mainstay-tab-content">{children}</PageSection>;
}

/** AddressTabs shows tabs, of which the chosen one is part of the address. Only its content is rendered. */
export function AddressTabs({ label, children }: { label: string; children: ReactElement<{ name: string; title: string }>[] }) {
  const [parameters, setParameters] = useSearchParams();
  const tabs = Children.toArray(children).filter((child): child is ReactElement<{ name: string; title: string }> => isValidElement(child));
  const chosen = tabs.find((tab) => tab.props.name === parameters.get('tab')) ?? tabs[0];
  return (
    <Tabs
      aria-label={label} activeKey={chosen?.props.name ?? ''} mountOnEnter unmountOnExit
      onSelect={(_event, name) => {
        setParameters((before) => {
          before.set('tab', String(name));
          return before;
        });
      }}
    >
      {tabs.map((tab) => <Tab key={tab.props.name} eventKey={tab.props.name} title={<TabTitleText>{tab.props.title}</TabTitleText>}>{tab}</Tab>)}
    </Tabs>
  );
}

/** Events shows the events about an object. */
export function Events({ source: { events, eventsProblem } }: { source: Schemas['Source'] }) {
  if (eventsProblem !== undefined) return <ProblemAlert title="The events could not be read" message={eventsProblem} isForbidden />;
  if (events.length === 0) return <NothingState title="There are no events">Kubernetes keeps events for about an hour.</NothingState>;
  return (
    <Table aria-label="Events" variant="compact">
      <Thead><Tr><Th>Type</Th><Th>Reason</Th><Th>Message</Th><Th>Count</Th><Th>Last</Th></Tr></Thead>
      <Tbody>
        {events.map((e) => (
          <Tr key={`${e.reason} ${e.message} ${e.last ?? ''}`}>
            <Td dataLabel="Type">{e.type}</Td>
            <Td dataLabel="Reason">{e.reason}</Td>
            <Td dataLabel="Message" className="mainstay-message">{e.message}</Td>
            <Td dataLabel="Count">{e.count ?? 1}</Td>
            <Td dataLabel="Last"><Age time={e.last} /></Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

/** ScopedRules shows rules by namespace. */
export function ScopedRules({ rules }: { rules: readonly Schemas['ScopedRule'][] }) {
  const namespaces = [...new Set(rules.map((r) => r.namespace ?? ''))].toSorted((a, b) => a.localeCompare(b, 'en'));
  return namespaces.map((namespace) => (
    <div key={namespace}>
      <strong>{namespace === '' ? 'In the whole cluster' : `In namespace ${namespace}`}</strong>
      <PermissionRules rules={rules.filter((r) => (r.namespace ?? '') === namespace).map((r) => ({ ...r.rule, farReaching: r.farReaching }))} />
    </div>
  ));
}

/** SourceViewer shows an object as YAML. */
export function SourceViewer({ manifest }: { manifest: Schemas['Manifest'] }) {
  return <YamlViewer label={`${manifest.kind} ${manifest.name}`} value={manifest.yaml} />;
}
