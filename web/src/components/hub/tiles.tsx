import { Card, CardBody, CardHeader, CardTitle, Label, LabelGroup, Tooltip } from '@patternfly/react-core';
import { useVirtualizer } from '@tanstack/react-virtual';
import { useLayoutEffect, useRef, useState, type RefObject } from 'react';
import { Link } from 'react-router';

import { PackageIcon } from './icon';
import type { PackageSummary } from './search';
import { packagePath } from './source';

/** Badge says how a package is installed. */
export interface Badge {
  text: string;
  status: 'success' | 'info' | 'warning' | 'danger';
}

export interface TilesProps {
  packages: readonly PackageSummary[];
  isList: boolean;
  badgeOf: ((p: PackageSummary) => Badge | undefined) | undefined;
}

const tileWidth = 280;
const tileHeight = 240;
const rowHeight = 96;

/** Tiles shows packages. Only those that can be seen are in the page. */
export function Tiles({ packages, isList, badgeOf }: TilesProps) {
  const frame = useRef<HTMLDivElement>(null);
  const { width, scroller, offset } = usePlace(frame);
  const columns = isList ? 1 : Math.min(8, Math.max(1, Math.floor(width / tileWidth)));
  // The virtualizer changes itself when the page scrolls, which the compiler of React cannot see. This component is not compiled.
  // eslint-disable-next-line react-hooks/incompatible-library
  const rows = useVirtualizer({
    count: Math.ceil(packages.length / columns), getScrollElement: () => scroller, estimateSize: () => (isList ? rowHeight : tileHeight),
    overscan: 4, scrollMargin: offset, gap: 16,
  });
  return (
    <div ref={frame} role="list" aria-label="Packages" className="mainstay-tiles">
      <Space height={(rows.getVirtualItems()[0]?.start ?? offset) - offset} />
      {rows.getVirtualItems().map((row) => (
        <div key={row.key} ref={rows.measureElement} data-index={row.index} role="presentation" className={`mainstay-tiles-row mainstay-tiles-${columns}`}>
          {packages.slice(row.index * columns, (row.index + 1) * columns).map((p) => (
            <Tile key={`${p.catalog}/${p.name}`} p={p} badge={badgeOf?.(p)} isList={isList} />
          ))}
        </div>
      ))}
      <Space height={rows.getTotalSize() - ((rows.getVirtualItems().at(-1)?.end ?? offset) - offset)} />
    </div>
  );
}

/** Space takes the place of the tiles that cannot be seen. */
function Space({ height }: { height: number }) {
  return <svg aria-hidden="true" width="1" height={Math.max(0, height)} className="mainstay-space" />;
}

/** usePlace returns the width of an element, the element that scrolls it, and the distance from the top of that one's content. */
function usePlace(frame: RefObject<HTMLElement | null>): { width: number; scroller: HTMLElement | null; offset: number } {
  const [place, setPlace] = useState<{ width: number; scroller: HTMLElement | null; offset: number }>({ width: 0, scroller: null, offset: 0 });
  useLayoutEffect(() => {
    const element = frame.current;
    if (element === null) return undefined;

    const scroller = findScroller(element);
    const measure = () => {
      const offset = Math.round(element.getBoundingClientRect().top - scroller.getBoundingClientRect().top + scroller.scrollTop);
      setPlace((before) => (before.width === element.clientWidth && before.offset === offset ? before : { width: element.clientWidth, scroller, offset }));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => { observer.disconnect(); };
  }, [frame]);
  return place;
}

function findScroller(element: HTMLElement): HTMLElement {
  for (let parent = element.parentElement; parent !== null; parent = parent.parentElement) {
    if (/auto|scroll/.test(getComputedStyle(parent).overflowY)) return parent;
  }
  return document.documentElement;
}

function Tile({ p, badge, isList }: { p: PackageSummary; badge: Badge | undefined; isList: boolean }) {
  return (
    <div role="listitem" className="mainstay-tile">
      <Card isFullHeight isCompact={isList}>
        <CardHeader><PackageIcon p={p} /></CardHeader>
        <CardTitle component="h2">
          <Link to={packagePath(p)}>{p.displayName ?? p.name}</Link>
          <div className="mainstay-message mainstay-small">{[p.provider, p.version, p.catalog.replace(':', '/')].filter((text) => text !== undefined && text !== '').join(' · ')}</div>
        </CardTitle>
        <CardBody>
          <p className="mainstay-clamp">{p.description}</p>
          <Badges p={p} badge={badge} />
        </CardBody>
      </Card>
    </div>
  );
}

/** Badges says what a user must know about a package before opening it. */
export function Badges({ p, badge }: { p: PackageSummary; badge?: Badge | undefined }) {
  return (
    <LabelGroup aria-label={`State of ${p.displayName ?? p.name}`} numLabels={5}>
      {badge !== undefined && <Label isCompact status={badge.status}>{badge.text}</Label>}
      {p.deprecated !== undefined && <Tooltip content={p.deprecated}><Label isCompact status="warning">Deprecated</Label></Tooltip>}
      {p.refusal !== undefined && <Tooltip content={p.refusal}><Label isCompact status="danger">Cannot be installed here</Label></Tooltip>}
      {p.otherPlatform !== undefined && <Tooltip content={p.otherPlatform}><Label isCompact status="warning">Other platform</Label></Tooltip>}
    </LabelGroup>
  );
}
