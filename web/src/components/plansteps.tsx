import { CodeBlock, CodeBlockCode, Label, Title } from '@patternfly/react-core';
import { ExpandableRowContent, Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';
import { useState } from 'react';

import type { Schemas } from '../api/client';

type PlanStep = Schemas['PlanStep'];
type Change = Schemas['Change'];

interface PlanStepsProps {
  steps: readonly PlanStep[];
  /** changes are the differences to the cluster. An object without one stays as it is. */
  changes: readonly Change[];
  /** isComplete reports whether all objects could be compared. */
  isComplete: boolean;
}

/** PlanSteps lists the objects of an InstallPlan. An object that is new opens its manifest, and one that changes its difference. */
export function PlanSteps({ steps, changes, isComplete }: PlanStepsProps) {
  const [open, setOpen] = useState<ReadonlySet<number>>(new Set());
  const toggle = (index: number) => { setOpen((before) => (before.has(index) ? new Set([...before].filter((i) => i !== index)) : new Set([...before, index]))); };
  return (
    <div>
      <Title headingLevel="h3" size="md">Objects of the plan ({steps.length})</Title>
      <Table aria-label="Objects of the plan" variant="compact">
        <Thead><Tr><Th screenReaderText="Manifest or difference" /><Th>Kind</Th><Th>Name</Th><Th>API version</Th><Th>Status</Th></Tr></Thead>
        {steps.map((step, index) => (
          <Step key={`${step.kind}/${step.name}/${index}`} step={step} change={findChange(step, changes)} isComplete={isComplete} index={index} isOpen={open.has(index)} onToggle={() => { toggle(index); }} />
        ))}
      </Table>
    </div>
  );
}

interface StepProps {
  step: PlanStep;
  change: Change | undefined;
  isComplete: boolean;
  index: number;
  isOpen: boolean;
  onToggle: () => void;
}

function Step({ step, change, isComplete, index, isOpen, onToggle }: StepProps) {
  return (
    <Tbody isExpanded={isOpen}>
      <Tr>
        {change === undefined ? <Td /> : <Td expand={{ rowIndex: index, isExpanded: isOpen, onToggle, expandId: `step-${step.kind}-${step.name}-` }} />}
        <Td dataLabel="Kind">{step.kind}</Td>
        <Td dataLabel="Name">{step.name}</Td>
        <Td dataLabel="API version">{step.apiVersion}</Td>
        <Td dataLabel="Status">{change === undefined ? describeStep(step, isComplete) : <Label isCompact variant="outline" {...labels[change.change]}>{words[change.change]}</Label>}</Td>
      </Tr>
      {isOpen && change !== undefined && (
        <Tr isExpanded>
          <Td colSpan={5}><ExpandableRowContent><CodeBlock><CodeBlockCode>{change.change === 'added' ? toManifest(change.diff) : change.diff}</CodeBlockCode></CodeBlock></ExpandableRowContent></Td>
        </Tr>
      )}
    </Tbody>
  );
}

const labels: Readonly<Record<string, { status: 'success' | 'info' | 'danger' }>> = { added: { status: 'success' }, changed: { status: 'info' }, removed: { status: 'danger' } };
const words: Readonly<Record<string, string>> = { added: 'New', changed: 'Changed', removed: 'Removed' };

function findChange({ kind, name, apiVersion }: PlanStep, changes: readonly Change[]): Change | undefined {
  return changes.find((c) => c.kind === kind && c.name === name && c.apiVersion === apiVersion);
}

/** describeStep returns the status of an object without a difference. */
export function describeStep({ status }: PlanStep, isComplete: boolean): string {
  if (status === 'WaitingForApi') return 'Waits for its API';
  if (status === 'UnsupportedResource') return 'Cannot be installed';
  return isComplete || status === 'Present' || status === 'Created' ? 'Exists, unchanged' : 'Not known';
}

/** toManifest returns the manifest of a new object, whose difference consists of added lines. */
export function toManifest(diff: string): string {
  return diff.split('\n').filter((line) => !line.startsWith('@@')).map((line) => line.replace(/^\+/, '')).join('\n');
}
