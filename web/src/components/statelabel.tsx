import { Label } from '@patternfly/react-core';

type Status = 'success' | 'warning' | 'danger' | 'info';

/** The colour of a state is never its only sign: the label has the word, and PatternFly adds an icon by status. */
const statuses: Readonly<Record<string, Status>> = {
  Ready: 'success',
  Succeeded: 'success',
  Installing: 'info',
  Updating: 'info',
  Removing: 'info',
  Pending: 'info',
  Replacing: 'info',
  Deleting: 'info',
  Planned: 'info',
  AwaitingApproval: 'warning',
  Retrying: 'warning',
  Unknown: 'warning',
  Degraded: 'danger',
  Failed: 'danger',
};

const words: Readonly<Record<string, string>> = { AwaitingApproval: 'Awaiting approval' };

/** StateLabel shows the state of an extension or operator. */
export function StateLabel({ state }: { state: string }) {
  return (
    <Label status={statuses[state] ?? 'warning'} variant="outline">
      {words[state] ?? state}
    </Label>
  );
}
