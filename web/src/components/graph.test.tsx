import { cleanup, configure, fireEvent, render, screen } from '@testing-library/react';
import { afterEach, describe, expect, it, vi } from 'vitest';

import { isDrawable, VersionGraph, type GraphEdge, type GraphNode } from './graph';
import { layOut } from './graphlayout';
import { fitScale } from './graphpicture';

const nodes: GraphNode[] = [
  { id: 'a', label: '1.0.0', state: 'warning', badges: ['deprecated'], description: 'use 1.1.0' },
  { id: 'b', label: '1.1.0', badges: ['stable'] },
  { id: 'c', label: '1.2.0' },
];
const edges: GraphEdge[] = [
  { from: 'a', to: 'b', kind: 'replaces' }, { from: 'b', to: 'c', kind: 'replaces' }, { from: 'a', to: 'c', kind: 'skips' },
  { from: 'a', to: 'c', kind: 'skipRange' }, { from: 'missing', to: 'c', kind: 'replaces' }, { from: 'c', to: 'c', kind: 'skipRange' },
];
const kinds = [['replaces', 'replaces'], ['skips', 'skips'], ['skipRange', 'skips by range']] as const;

configure({ asyncUtilTimeout: 30_000 }); // slow machines
afterEach(cleanup);

describe('the layout', () => {
  it('puts newer versions above older ones and keeps all boxes inside', () => {
    const { boxes, arrows, width, height } = layOut(nodes, edges);
    const [a, b, c] = boxes;
    expect(a && b && c && a.y > b.y && b.y > c.y).toBe(true);
    expect(boxes.every((box) => box.x - box.width / 2 >= 0 && box.x + box.width / 2 <= width && box.y + box.height / 2 <= height)).toBe(true);
    expect(arrows.map(({ edge }) => `${edge.from}${edge.to} ${edge.kind}`)).toEqual(['ab replaces', 'bc replaces', 'ac skips', 'ac skipRange']);
    expect(arrows.every(({ path }) => /^M[-\d.,LQ ]+$/.test(path))).toBe(true);
  });

  it('accepts an empty graph, names of object properties, and cycles', () => {
    expect(layOut([], []).boxes).toEqual([]);
    const hostile = ['__proto__', 'constructor', 'toString'].map((id) => ({ id, label: id }));
    const cycle = [{ from: '__proto__', to: 'constructor', kind: 'x' }, { from: 'constructor', to: '__proto__', kind: 'x' }];
    expect(layOut(hostile, cycle).boxes).toHaveLength(3);
  });

  it.each([
    [{ width: 100, height: 100 }, 1000, 1000, 1],
    [{ width: 1000, height: 100 }, 500, 500, 0.5],
    [{ width: 100_000, height: 100 }, 500, 500, 0.25],
    [{ width: 0, height: 0 }, 500, 500, 1],
  ])('fits %j into %i × %i', (picture, width, height, scale) => {
    expect(fitScale(picture, width, height)).toBe(scale);
  });
});

describe('the graph', () => {
  it('shows a picture whose versions can be chosen', async () => {
    const onSelect = vi.fn();
    render(<VersionGraph name="Updates of argocd" nodes={nodes} edges={edges} kinds={kinds} onSelect={onSelect} />);
    fireEvent.click(await screen.findByRole('button', { name: '1.0.0, deprecated' }));
    fireEvent.keyDown(screen.getByRole('button', { name: '1.2.0' }), { key: 'Enter' });
    expect(onSelect.mock.calls).toEqual([['a'], ['c']]);
  });

  it('can be scaled by keyboard', async () => {
    const { container } = render(<VersionGraph name="Updates of argocd" nodes={nodes} edges={edges} kinds={kinds} />);
    const region = await screen.findByRole('region');
    const width = () => Number(container.querySelector('.mainstay-graph svg')?.getAttribute('width'));
    const before = width();
    fireEvent.keyDown(region, { key: '+' });
    expect(width()).toBeGreaterThan(before);
  });

  it('has the same content as a table', () => {
    render(<VersionGraph name="Updates of argocd" nodes={nodes} edges={edges} kinds={kinds} />);
    fireEvent.click(screen.getByRole('button', { name: 'Table' }));
    expect(screen.getByRole('row', { name: /1.2.0/ }).textContent).toContain('replaces: 1.1.0, missing; skips: 1.0.0; skips by range: 1.0.0, 1.2.0');
    expect(screen.getByRole('row', { name: /use 1.1.0/ }).textContent).toContain('deprecated');
  });

  it.each([
    [300, 1500, true],
    [301, 0, false],
    [10, 1501, false],
  ])('draws %i versions with %i updates: %s', (versions, updates, drawn) => {
    const versionsOf = Array.from({ length: versions }, (_, i) => ({ id: `${i}`, label: `1.0.${i}` }));
    const updatesOf = Array.from({ length: updates }, () => ({ from: '0', to: '1', kind: 'replaces' }));
    expect(isDrawable(versionsOf, updatesOf)).toBe(drawn);
  });
});
