import { Alert, Stack, StackItem, ToggleGroup, ToggleGroupItem } from '@patternfly/react-core';
import { lazy, Suspense, useState, type ReactNode } from 'react';

import { GraphTable } from './graphtable';
import { LoadingState } from './states';

/** GraphNode is a version in a graph. */
export interface GraphNode {
  id: string;
  /** The label is short: it is shown in the box. */
  label: string;
  /** The description says more: a tooltip in the picture, a line in the table. */
  description?: string;
  state?: GraphState;
  /** Badges are words such as "installed" or the names of channels. */
  badges?: readonly string[];
}

/** GraphState changes the colour of a node. The node says the same in a badge. */
export type GraphState = 'current' | 'target' | 'good' | 'warning' | 'danger';

/** GraphEdge is an update from one version to another. Edges of one kind look alike. */
export interface GraphEdge {
  from: string;
  to: string;
  kind: string;
}

export interface VersionGraphProps {
  /** The name says what the graph shows, for users who do not see it. */
  name: string;
  nodes: readonly GraphNode[];
  edges: readonly GraphEdge[];
  /** The words for the kinds of edges, in the order of the legend. At most four kinds look different. */
  kinds: readonly (readonly [kind: string, words: string])[];
  selected?: string | undefined;
  onSelect?: ((id: string) => void) | undefined;
}

/** Larger graphs are shown as a table only: they would be slow, and nobody can read them. */
const maxNodes = 300;
const maxEdges = 1500;

// The layout and the picture are read when the first picture is shown.
const GraphPicture = lazy(async () => ({ default: (await import('./graphpicture')).GraphPicture }));

/** isDrawable reports whether a graph is small enough for a picture. */
export function isDrawable(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): boolean {
  return nodes.length <= maxNodes && edges.length <= maxEdges;
}

/** VersionGraph shows versions and the updates between them, as a picture or as a table with the same content. */
export function VersionGraph(props: VersionGraphProps) {
  const [wantsTable, setWantsTable] = useState(false);
  const { name, nodes, edges } = props;
  if (!isDrawable(nodes, edges)) {
    return (
      <Stack hasGutter>
        <StackItem><Alert isInline isPlain variant="info" title={`The graph is too large for a picture: ${nodes.length} versions and ${edges.length} updates.`} /></StackItem>
        <StackItem><GraphTable {...props} /></StackItem>
      </Stack>
    );
  }

  return (
    <Stack hasGutter>
      <StackItem>
        <ToggleGroup aria-label={`How to show ${name}`}>
          <ToggleGroupItem text="Picture" isSelected={!wantsTable} onChange={() => { setWantsTable(false); }} />
          <ToggleGroupItem text="Table" isSelected={wantsTable} onChange={() => { setWantsTable(true); }} />
        </ToggleGroup>
      </StackItem>
      <StackItem>{wantsTable ? <GraphTable {...props} /> : <Picture {...props} />}</StackItem>
    </Stack>
  );
}

function Picture(props: VersionGraphProps): ReactNode {
  return (
    <Suspense fallback={<LoadingState what="the picture" />}>
      <GraphPicture {...props} />
    </Suspense>
  );
}
