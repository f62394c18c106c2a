import { Card, CardBody, CardTitle, ProgressStep, ProgressStepper } from '@patternfly/react-core';
import type { ReactNode } from 'react';
import { Link } from 'react-router';

import { asSentence } from './sentence';

/** Step is a part of an installation or upgrade. */
export interface Step {
  name: string;
  state: string;
  detail?: string | undefined;
}

const variants = { done: 'success', current: 'info', waiting: 'pending', failed: 'danger' } as const;
const words = { done: 'done', current: 'in progress', waiting: 'waiting', failed: 'failed' } as const;

/** ProgressCard shows how far an installation or upgrade is, and what it waits for. */
export function ProgressCard({ title, steps, children }: { title: string; steps: readonly Step[]; children?: ReactNode }) {
  return (
    <Card>
      <CardTitle component="h2">{title}</CardTitle>
      <CardBody>
        <ProgressStepper isVertical aria-label={title}>
          {steps.map(({ name, state, detail }) => {
            const known = state as keyof typeof variants;
            return (
              <ProgressStep
                key={name} id={`step-${name}`} titleId={`step-${name}-title`} variant={variants[known]} isCurrent={state === 'current'}
                aria-label={`${name}: ${words[known]}`} description={detail === undefined ? undefined : asSentence(detail)}
              >
                {asSentence(name)}
              </ProgressStep>
            );
          })}
        </ProgressStepper>
        {children}
      </CardBody>
    </Card>
  );
}

/** isUnderway reports whether a state is on the way to another one, or waits for a person. */
export function isUnderway(state: string): boolean {
  return ['Installing', 'Updating', 'Pending', 'AwaitingApproval', 'Retrying', 'Failed', 'Removing'].includes(state);
}

/** FirstOperandCard offers to create a custom resource of an operator that runs. Its custom resources are at the path. */
export function FirstOperandCard({ crds, path }: { crds: readonly string[]; path: string }) {
  if (crds.length === 0) return null;
  return (
    <Card>
      <CardTitle component="h2">Create your first custom resource</CardTitle>
      <CardBody>
        The operator provides {crds.join(', ')}. <Link to={path}>See and create custom resources</Link>
      </CardBody>
    </Card>
  );
}
