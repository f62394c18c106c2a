import { Button, Stack, StackItem, Tooltip } from '@patternfly/react-core';
import { Link } from 'react-router';

import type { Schemas } from '../../api/client';
import { SourceViewer } from '../../components/source';
import { editAddress, missingPermission, useAccess, type ResourcePath } from './shared';

interface EditableSourceProps {
  resource: ResourcePath;
  manifest: Schemas['Manifest'];
}

/** EditableSource shows an object as YAML, and leads to its editor. */
export function EditableSource({ resource, manifest }: EditableSourceProps) {
  const { namespace = '', name } = manifest;
  const access = useAccess(resource, namespace, name);
  return (
    <Stack hasGutter>
      <StackItem>
        {access.update
          ? <Button variant="secondary" component={(props) => <Link {...props} to={editAddress(resource, namespace, name)} />}>Edit</Button>
          : <Tooltip content={missingPermission('update', resource, namespace)}><Button variant="secondary" isAriaDisabled>Edit</Button></Tooltip>}
      </StackItem>
      <StackItem><SourceViewer manifest={manifest} /></StackItem>
    </Stack>
  );
}
