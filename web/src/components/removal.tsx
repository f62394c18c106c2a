import { Alert, List, ListItem } from '@patternfly/react-core';

import type { Schemas } from '../api/client';

/** CRDRemovals lists CRDs with the number of their custom resources. */
export function CRDRemovals({ title, crds, isDanger }: { title: string; crds: readonly Schemas['CRDRemoval'][]; isDanger: boolean }) {
  if (crds.length === 0) return null;
  return (
    <Alert isInline variant={isDanger ? 'danger' : 'info'} title={title}>
      <List>{crds.map((crd) => <ListItem key={crd.name}>{crd.name}: {describeCount(crd)}</ListItem>)}</List>
    </Alert>
  );
}

const maxNamespaces = 5;

/** describeCount returns the number of custom resources and their namespaces. */
export function describeCount({ customResources, namespaces = [], unknown }: Schemas['CRDRemoval']): string {
  if (unknown !== undefined) return unknown;
  const count = customResources === 1 ? '1 custom resource' : `${customResources} custom resources`;
  if (namespaces.length === 0) return count;
  const more = namespaces.length > maxNamespaces ? ` and ${namespaces.length - maxNamespaces} more` : '';
  return `${count}, in ${namespaces.slice(0, maxNamespaces).join(', ')}${more}`;
}
