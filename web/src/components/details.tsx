import { Breadcrumb, BreadcrumbItem, DescriptionList, DescriptionListDescription, DescriptionListGroup, DescriptionListTerm, PageSection, Title } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import type { ReactNode } from 'react';
import { Link } from 'react-router';

import { Age } from './time';

/** Parent is a page that others belong to. */
export interface Parent {
  path: string;
  title: string;
}

const installed: Parent = { path: '/installed', title: 'Installed' };

/** DetailsHeader is the head of a page about one object. Its parent is the page that lists such objects. */
export function DetailsHeader({ title, parent = installed, children }: { title: string; parent?: Parent; children?: ReactNode }) {
  return (
    <PageSection>
      <Breadcrumb>
        <BreadcrumbItem><Link to={parent.path}>{parent.title}</Link></BreadcrumbItem>
        <BreadcrumbItem isActive>{title}</BreadcrumbItem>
      </Breadcrumb>
      <div className="mainstay-header">
        <Title headingLevel="h1">{title}</Title>
        {children}
      </div>
    </PageSection>
  );
}

/** Facts shows pairs of a term and its value. Pairs without a value are left out. */
export function Facts({ facts, isNarrow = false }: { facts: readonly (readonly [string, ReactNode])[]; isNarrow?: boolean }) {
  return (
    <DescriptionList columnModifier={isNarrow ? { default: '1Col' } : { default: '1Col', lg: '2Col' }}>
      {facts.filter(([, value]) => value !== undefined && value !== '').map(([term, value]) => (
        <DescriptionListGroup key={term}>
          <DescriptionListTerm>{term}</DescriptionListTerm>
          <DescriptionListDescription>{value}</DescriptionListDescription>
        </DescriptionListGroup>
      ))}
    </DescriptionList>
  );
}

/** Condition is what the conditions of all kinds have in common. */
export interface Condition {
  type: string;
  status: string;
  reason?: string;
  message?: string;
  lastTransitionTime?: string;
}

/** Conditions is the table of an object's conditions. */
export function Conditions({ conditions }: { conditions: readonly Condition[] }) {
  return (
    <Table aria-label="Conditions" variant="compact">
      <Thead>
        <Tr><Th>Condition</Th><Th>Status</Th><Th>Reason</Th><Th>Message</Th><Th>Since</Th></Tr>
      </Thead>
      <Tbody>
        {conditions.map((c) => (
          <Tr key={c.type}>
            <Td dataLabel="Condition">{c.type}</Td>
            <Td dataLabel="Status">{c.status}</Td>
            <Td dataLabel="Reason">{c.reason}</Td>
            <Td dataLabel="Message" className="mainstay-message">{c.message}</Td>
            <Td dataLabel="Since"><Age time={c.lastTransitionTime} /></Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}
