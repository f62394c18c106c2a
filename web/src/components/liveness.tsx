import { Alert } from '@patternfly/react-core';

import type { Liveness } from '../live';

/** LivenessHint says that a page no longer follows changes. */
export function LivenessHint({ liveness }: { liveness: Liveness }) {
  if (liveness !== 'lost') return null;
  return <Alert isInline isPlain variant="warning" title="The connection is lost. The page shows what was known last, and follows changes again when the connection is back." />;
}
