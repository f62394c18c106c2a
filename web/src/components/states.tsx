import { Alert, Bullseye, Button, EmptyState, EmptyStateActions, EmptyStateBody, EmptyStateFooter, Spinner } from '@patternfly/react-core';
import type { ReactNode } from 'react';

import { ApiError } from '../api/client';

/** LoadingState is shown while something is read. */
export function LoadingState({ what }: { what: string }) {
  return (
    <Bullseye>
      <Spinner aria-label={`Reading ${what}`} />
    </Bullseye>
  );
}

/** ErrorState is shown instead of something that could not be read: what went wrong, and what to do. The actions are offered besides another attempt. */
export function ErrorState({ error, onRetry, actions }: { error: Error; onRetry: () => void; actions?: ReactNode }) {
  const advice = error instanceof ApiError ? error.advice : undefined;
  const isForbidden = error instanceof ApiError && error.status === 403;
  return (
    <EmptyState status={isForbidden ? 'warning' : 'danger'} titleText={isForbidden ? 'You are not allowed to see this' : 'This could not be read'} headingLevel="h1">
      <EmptyStateBody>
        <p>{error.message}</p>
        {advice !== undefined && <p>{advice}</p>}
      </EmptyStateBody>
      <EmptyStateFooter>
        <EmptyStateActions>
          <Button variant="primary" onClick={onRetry}>Try again</Button>
          {actions}
        </EmptyStateActions>
      </EmptyStateFooter>
    </EmptyState>
  );
}

/** ProblemAlert is shown beside the part of a page that could be read. */
export function ProblemAlert({ title, message, advice, isForbidden }: { title: string; message: string; advice?: string | undefined; isForbidden?: boolean | undefined }) {
  return (
    <Alert isInline variant={isForbidden === true ? 'warning' : 'danger'} title={title}>
      <p>{message}</p>
      {advice !== undefined && <p>{advice}</p>}
    </Alert>
  );
}

/** NothingState is shown when there is nothing: why, and what to do next. */
export function NothingState({ title, children, actions }: { title: string; children: ReactNode; actions?: ReactNode }) {
  return (
    <EmptyState titleText={title} headingLevel="h2">
      <EmptyStateBody>{children}</EmptyStateBody>
      {actions !== undefined && <EmptyStateFooter><EmptyStateActions>{actions}</EmptyStateActions></EmptyStateFooter>}
    </EmptyState>
  );
}
