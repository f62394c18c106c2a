import { Button, PageSection } from '@patternfly/react-core';
import { useNavigate } from 'react-router';

import { NothingState } from '../components/states';

/** NotFoundPage is shown for an address without a page. */
export function NotFoundPage() {
  const navigate = useNavigate();
  return (
    <PageSection>
      <NothingState title="There is no such page" actions={<Button onClick={() => void navigate('/installed')}>Show what is installed</Button>}>
        The address may be from another version of the console.
      </NothingState>
    </PageSection>
  );
}
