import { Graph, layout } from '@dagrejs/dagre';

import type { GraphEdge, GraphNode } from './graph';

/** Box is the place of a node: its centre and its size. */
export interface Box {
  node: GraphNode;
  x: number;
  y: number;
  width: number;
  height: number;
}

/** Arrow is the way of an edge. */
export interface Arrow {
  edge: GraphEdge;
  path: string;
}

/** Layout is a graph with places, in the pixels of the unscaled picture. */
export interface Layout {
  width: number;
  height: number;
  boxes: Box[];
  arrows: Arrow[];
}

const characterWidth = 8;
const lineHeight = 18;
const padding = 10;
const margin = 12;

/** layOut places a graph with the newest versions at the top. Edges to or from unknown nodes, and those of a node to itself, are left out. */
export function layOut(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): Layout {
  const graph = new Graph({ multigraph: true });
  graph.setGraph({ rankdir: 'BT', nodesep: 24, ranksep: 36, marginx: margin, marginy: margin });
  graph.setDefaultEdgeLabel(() => ({}));
  // Names come from catalogs, and the library keeps its nodes in plain objects: a version could be called "__proto__".
  const keys = new Map(nodes.map((node, index) => [node.id, `n${index}`]));
  const keyOf = (id: string) => keys.get(id) ?? '';
  for (const node of nodes) {
    graph.setNode(keyOf(node.id), { width: widthOf(node), height: lineHeight * linesOf(node).length + padding });
  }

  const drawn = edges.filter((edge) => keys.has(edge.from) && keys.has(edge.to) && edge.from !== edge.to);
  for (const edge of drawn) graph.setEdge(keyOf(edge.from), keyOf(edge.to), {}, `-${edge.kind}`);
  layout(graph);

  const boxes = nodes.map((node) => {
    const { x = 0, y = 0, width = 0, height = 0 } = graph.node(keyOf(node.id)) as Partial<Box>;
    return { node, x, y, width, height };
  });
  const arrows = drawn.map((edge) => {
    const { points = [] } = graph.edge(keyOf(edge.from), keyOf(edge.to), `-${edge.kind}`) as { points?: Point[] };
    return { edge, path: smoothPath(points) };
  });
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return { width: Math.ceil(width), height: Math.ceil(height), boxes, arrows };
}

/** linesOf returns the lines of text in the box of a node: its label, and its badges. */
export function linesOf(node: GraphNode): string[] {
  const badges = (node.badges ?? []).map((badge) => shorten(badge, 24));
  return badges.length === 0 ? [shorten(node.label, 32)] : [shorten(node.label, 32), shorten(badges.join(' · '), 48)];
}

function widthOf(node: GraphNode): number {
  return Math.max(...linesOf(node).map((line) => line.length)) * characterWidth + 2 * padding;
}

function shorten(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}

interface Point {
  x: number;
  y: number;
}

/** smoothPath returns a curve that starts at the first point, ends at the last, and bends at the others. */
function smoothPath(points: readonly Point[]): string {
  const [first, ...rest] = points;
  const last = rest.at(-1);
  if (first === undefined || last === undefined) return '';

  let path = `M${format(first)}`;
  for (const [index, point] of rest.slice(0, -1).entries()) {
    const next = rest[index + 1] ?? last;
    const end = index === rest.length - 2 ? last : { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 };
    path += `Q${format(point)} ${format(end)}`;
  }
  return rest.length === 1 ? `${path}L${format(last)}` : path;
}

function format({ x, y }: Point): string {
  return `${x.toFixed(1)},${y.toFixed(1)}`;
}
