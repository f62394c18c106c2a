import { cleanup, render, waitFor } from '@testing-library/react';
import { useState } from 'react';
import { afterEach, beforeAll, expect, it, vi } from 'vitest';

import type { Fault } from './yamltext';
import { YamlDifference, YamlEditor, YamlViewer } from './yaml';

beforeAll(() => import('./codemirror'), 120_000);
afterEach(cleanup);
vi.setConfig({ testTimeout: 60_000 });

/** readContent returns the content of the editor, which is in a shadow root. */
async function readContent(container: HTMLElement): Promise<HTMLElement> {
  return waitFor(() => {
    for (const element of container.querySelectorAll('div')) {
      const content = element.shadowRoot?.querySelector('.cm-content');
      if (content instanceof HTMLElement) return content;
    }
    throw new Error('there is no editor');
  }, { timeout: 20_000 });
}

function Page({ onChange, faults }: { onChange: (text: string) => void; faults: readonly Fault[] }) {
  const [text, setText] = useState('a: 1');
  return (
    <>
      <YamlEditor label="Example" value={text} faults={faults} onChange={(changed) => { setText(changed); onChange(changed); }} />
      <button onClick={() => { setText('b: 2'); }}>Replace</button>
    </>
  );
}

it('an editor shows its text, and follows changes from outside without reporting them', async () => {
  const onChange = vi.fn();
  const { container, getByRole } = render(<Page onChange={onChange} faults={[]} />);
  const content = await readContent(container);
  expect(content.getAttribute('aria-label')).toBe('Example');
  expect(content.textContent).toBe('a: 1');
  getByRole('button').click();
  await waitFor(() => { expect(content.textContent).toBe('b: 2'); });
  expect(onChange).not.toHaveBeenCalled();
});

it('an editor shows faults at their fields', async () => {
  const { container } = render(<Page onChange={vi.fn()} faults={[{ path: ['a'], message: 'too small' }]} />);
  const content = await readContent(container);
  await waitFor(() => { expect(content.querySelector('.cm-lintRange-error')?.textContent).toBe('a'); }, { timeout: 20_000 });
});

it('a viewer cannot be edited', async () => {
  const { container } = render(<YamlViewer label="Example" value="a: 1" />);
  expect((await readContent(container)).getAttribute('aria-readonly')).toBe('true');
});

it('a difference shows what is removed and what is added', async () => {
  const { container } = render(<YamlDifference label="Change" before={'a: 1\nb: 2\n'} after={'a: 1\nb: 3\n'} />);
  const content = await readContent(container);
  expect(content.querySelector('.cm-deletedChunk')?.textContent).toContain('b: 2');
  expect(content.querySelector('.cm-changedLine, .cm-insertedLine')?.textContent).toContain('b: 3');
});
