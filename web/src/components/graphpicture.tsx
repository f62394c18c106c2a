import { Button, Flex, FlexItem } from '@patternfly/react-core';
import { CompressIcon, SearchMinusIcon, SearchPlusIcon } from '@patternfly/react-icons';
import { useId, useMemo, useRef, useState, type KeyboardEvent } from 'react';

import type { GraphEdge, VersionGraphProps } from './graph';
import { layOut, linesOf, type Box, type Layout } from './graphlayout';

const minScale = 0.25;
const maxScale = 2;
const step = 1.25;

/**
 * GraphPicture draws a graph. It scrolls as every page does: by wheel, by touch, and by the arrow keys. It is scaled by its buttons,
 * and by the keys +, - and 0.
 */
export function GraphPicture({ name, nodes, edges, kinds, selected, onSelect }: VersionGraphProps) {
  const frame = useRef<HTMLElement>(null);
  const [scale, setScale] = useState(1);
  const picture = useMemo(() => layOut(nodes, edges), [nodes, edges]);
  const zoom = (factor: number) => { setScale((before) => limitScale(before * factor)); };
  const fit = () => { setScale(fitScale(picture, frame.current?.clientWidth ?? 0, frame.current?.clientHeight ?? 0)); };
  const onKeyDown = (event: KeyboardEvent) => {
    const action = { '+': () => { zoom(step); }, '=': () => { zoom(step); }, '-': () => { zoom(1 / step); }, '0': fit }[event.key];
    if (action === undefined || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    action();
  };
  return (
    <>
      <Flex justifyContent={{ default: 'justifyContentSpaceBetween' }}>
        <FlexItem><Legend edges={edges} kinds={kinds} /></FlexItem>
        <FlexItem>
          <Button variant="plain" aria-label="Zoom in" icon={<SearchPlusIcon />} isDisabled={scale >= maxScale} onClick={() => { zoom(step); }} />
          <Button variant="plain" aria-label="Zoom out" icon={<SearchMinusIcon />} isDisabled={scale <= minScale} onClick={() => { zoom(1 / step); }} />
          <Button variant="plain" aria-label="Show all of the picture" icon={<CompressIcon />} onClick={fit} />
        </FlexItem>
      </Flex>
      {/* eslint-disable jsx-a11y/no-noninteractive-tabindex, jsx-a11y/no-noninteractive-element-interactions -- a region that scrolls must be reachable by keyboard */}
      <section ref={frame} className="mainstay-graph" aria-label={`${name}. The table has the same content.`} tabIndex={0} onKeyDown={onKeyDown}>
        <Drawing picture={picture} scale={scale} kinds={kinds} selected={selected} onSelect={onSelect} />
      </section>
      {/* eslint-enable jsx-a11y/no-noninteractive-tabindex, jsx-a11y/no-noninteractive-element-interactions */}
    </>
  );
}

function limitScale(scale: number): number {
  return Math.min(maxScale, Math.max(minScale, scale));
}

/** fitScale returns the largest scale, up to the original size, at which a picture needs no scrolling. */
export function fitScale({ width, height }: { width: number; height: number }, frameWidth: number, frameHeight: number): number {
  if (width === 0 || height === 0 || frameWidth === 0 || frameHeight === 0) return 1;
  return limitScale(Math.min(1, frameWidth / width, frameHeight / height));
}

type DrawingProps = Pick<VersionGraphProps, 'kinds' | 'selected' | 'onSelect'> & { picture: Layout; scale: number };

function Drawing({ picture, scale, kinds, selected, onSelect }: DrawingProps) {
  const marker = useId();
  const { width, height, boxes, arrows } = picture;
  return (
    <svg width={width * scale} height={height * scale} viewBox={`0 0 ${width} ${height}`}>
      <defs>
        <marker id={marker} viewBox="0 0 8 8" refX="8" refY="4" markerUnits="userSpaceOnUse" markerWidth="8" markerHeight="8" orient="auto">
          <path d="M0,0L8,4L0,8Z" className="mainstay-graph-arrowhead" />
        </marker>
      </defs>
      {arrows.map(({ edge, path }) => (
        <path key={`${edge.from} ${edge.to} ${edge.kind}`} d={path} className={edgeClass(edge, kinds, selected)} markerEnd={`url(#${marker})`} />
      ))}
      {boxes.map((box) => <NodeBox key={box.node.id} box={box} isSelected={box.node.id === selected} onSelect={onSelect} />)}
    </svg>
  );
}

/** edgeClass returns the classes of an edge: its pattern by kind, and whether it touches the selected version. */
function edgeClass(edge: GraphEdge, kinds: VersionGraphProps['kinds'], selected: string | undefined): string {
  const pattern = Math.max(0, kinds.findIndex(([kind]) => kind === edge.kind)) % 4;
  const isNear = selected !== undefined && (edge.from === selected || edge.to === selected);
  return `mainstay-graph-edge mainstay-graph-edge-${pattern}${isNear ? ' mainstay-graph-edge-near' : ''}`;
}

function NodeBox({ box: { node, x, y, width, height }, isSelected, onSelect }: { box: Box; isSelected: boolean; onSelect: VersionGraphProps['onSelect'] }) {
  const lines = linesOf(node);
  const content = (
    <>
      <title>{[node.label, ...(node.badges ?? []), node.description ?? ''].filter((text) => text !== '').join('\n')}</title>
      <rect x={x - width / 2} y={y - height / 2} width={width} height={height} rx={6} />
      {lines.map((line, index) => (
        <text key={line} x={x} y={y + (index - (lines.length - 1) / 2) * 18} className={index === 0 ? 'mainstay-graph-label' : 'mainstay-graph-badges'}>{line}</text>
      ))}
    </>
  );
  const className = `mainstay-graph-node mainstay-graph-${node.state ?? 'plain'}${isSelected ? ' mainstay-graph-selected' : ''}`;
  if (onSelect === undefined) return <g className={className}>{content}</g>;

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key !== 'Enter' && event.key !== ' ') return;
    event.preventDefault();
    onSelect(node.id);
  };
  return (
    <g className={className} role="button" tabIndex={0} aria-pressed={isSelected} aria-label={[node.label, ...(node.badges ?? [])].join(', ')} onClick={() => { onSelect(node.id); }} onKeyDown={onKeyDown}>
      {content}
    </g>
  );
}

/** Legend explains the patterns of the edges that the graph has. */
function Legend({ edges, kinds }: Pick<VersionGraphProps, 'edges' | 'kinds'>) {
  const present = new Set(edges.map((edge) => edge.kind));
  return (
    <Flex>
      {kinds.map(([kind, words], index) => present.has(kind) && (
        <FlexItem key={kind}>
          <svg width="36" height="10" aria-hidden="true"><path d="M0,5L36,5" className={`mainstay-graph-edge mainstay-graph-edge-${index % 4}`} /></svg>
          {' '}{words}
        </FlexItem>
      ))}
    </Flex>
  );
}
