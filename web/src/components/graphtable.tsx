import { Button, Label, LabelGroup } from '@patternfly/react-core';
import { Table, Tbody, Td, Th, Thead, Tr } from '@patternfly/react-table';

import type { GraphEdge, VersionGraphProps } from './graph';

/** GraphTable has the content of a graph as a table: each version with the versions that it updates. */
export function GraphTable({ name, nodes, edges, kinds, selected, onSelect }: VersionGraphProps) {
  const labels = new Map(nodes.map((node) => [node.id, node.label]));
  return (
    <Table aria-label={name} variant="compact">
      <Thead>
        <Tr><Th>Version</Th><Th>Notes</Th><Th>Can be updated from</Th></Tr>
      </Thead>
      <Tbody>
        {nodes.map((node) => (
          <Tr key={node.id} isRowSelected={node.id === selected}>
            <Td dataLabel="Version">
              {onSelect === undefined
                ? node.label
                : <Button variant="link" isInline aria-pressed={node.id === selected} onClick={() => { onSelect(node.id); }}>{node.label}</Button>}
            </Td>
            <Td dataLabel="Notes">
              {node.badges !== undefined && node.badges.length > 0 && (
                <LabelGroup aria-label={`Notes about ${node.label}`} numLabels={5}>
                  {node.badges.map((badge) => <Label isCompact variant="outline" key={badge}>{badge}</Label>)}
                </LabelGroup>
              )}
              {node.description !== undefined && <div className="mainstay-message">{node.description}</div>}
            </Td>
            <Td dataLabel="Can be updated from">{describeSources(node.id, edges, kinds, labels)}</Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

/** describeSources returns the versions that can be updated to a version, by the kind of the update. */
export function describeSources(id: string, edges: readonly GraphEdge[], kinds: VersionGraphProps['kinds'], labels: ReadonlyMap<string, string>): string {
  const sentences = kinds.map(([kind, words]) => {
    const sources = edges.filter((edge) => edge.to === id && edge.kind === kind).map((edge) => labels.get(edge.from) ?? edge.from);
    return sources.length === 0 ? '' : `${words}: ${sources.join(', ')}`;
  });
  const text = sentences.filter((sentence) => sentence !== '').join('; ');
  return text === '' ? '–' : text;
}
