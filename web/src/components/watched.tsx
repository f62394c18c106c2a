import { Button, List, ListItem, Popover } from '@patternfly/react-core';
import { Link } from 'react-router';

/** Watched are the namespaces that an operator manages. */
export interface Watched {
  watchesAll?: boolean;
  watches?: string[];
}

/** WatchedNamespaces shows the namespaces that an operator manages: all, one, or a count that opens the list. It shows nothing if they are unknown. */
export function WatchedNamespaces({ watched: { watchesAll = false, watches = [] } }: { watched: Watched }) {
  const [first] = watches;
  if (watchesAll) return <>all namespaces</>;
  if (first === undefined) return null;
  if (watches.length === 1) return <NamespaceLink name={first} />;
  return (
    <Popover aria-label="Managed namespaces" headerContent="Managed namespaces" bodyContent={<List isPlain>{watches.map((name) => <ListItem key={name}><NamespaceLink name={name} /></ListItem>)}</List>}>
      <Button variant="link" isInline>{watches.length} namespaces</Button>
    </Popover>
  );
}

function NamespaceLink({ name }: { name: string }) {
  return <Link to={`/installed?namespace=${encodeURIComponent(name)}`}>{name}</Link>;
}
