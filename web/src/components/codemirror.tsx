import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { yaml } from '@codemirror/lang-yaml';
import { bracketMatching, foldGutter, foldKeymap, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { lintGutter, linter, lintKeymap } from '@codemirror/lint';
import { unifiedMergeView } from '@codemirror/merge';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { EditorState, StateEffect, StateField, type Extension } from '@codemirror/state';
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { useEffect, useEffectEvent, useRef, type RefObject } from 'react';

import { findMarks, type Fault } from './yamltext';

/** variable returns a design token of PatternFly. Tokens follow the theme of the page, light or dark. */
const variable = (name: string) => `var(--pf-t--global--${name})`;

const theme = EditorView.theme({
  '&': {
    backgroundColor: variable('background--color--primary--default'), color: variable('text--color--regular'), maxHeight: '36rem',
    border: `1px solid ${variable('border--color--control--default')}`, borderRadius: '4px', fontSize: '0.875rem',
  },
  '&.cm-focused': { outline: `2px solid ${variable('border--color--clicked')}` },
  '.cm-scroller': { fontFamily: variable('font--family--mono'), minHeight: '6rem' },
  '.cm-content': { caretColor: variable('text--color--regular') },
  '.cm-cursor': { borderLeftColor: variable('text--color--regular') },
  '.cm-gutters': { backgroundColor: variable('background--color--secondary--default'), color: variable('text--color--subtle'), border: 'none' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'transparent' },
  '&.cm-focused .cm-activeLine': { backgroundColor: variable('background--color--primary--hover') },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: variable('background--color--primary--clicked') },
  '.cm-searchMatch, .cm-selectionMatch': { backgroundColor: 'transparent', outline: `1px solid ${variable('border--color--status--warning--default')}` },
  '.cm-searchMatch-selected': { outlineWidth: '3px' },
  '.cm-panels, .cm-tooltip': { backgroundColor: variable('background--color--floating--default'), color: variable('text--color--regular') },
  '.cm-button, .cm-textfield': {
    backgroundColor: variable('background--color--control--default'), backgroundImage: 'none', color: variable('text--color--regular'),
    borderColor: variable('border--color--control--default'),
  },
  '.cm-foldPlaceholder, .cm-collapsedLines': { backgroundColor: variable('background--color--secondary--default'), backgroundImage: 'none', color: variable('text--color--subtle') },
  '.cm-insertedLine, .cm-deletedChunk': { textDecoration: 'none' },
  '.cm-changedLine, .cm-insertedLine': { boxShadow: `inset 3px 0 ${variable('border--color--status--success--default')}` },
  '.cm-deletedChunk': { boxShadow: `inset 3px 0 ${variable('border--color--status--danger--default')}` },
});

const highlighting = HighlightStyle.define([
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: variable('text--color--link--default') },
  { tag: [tags.string, tags.content], color: variable('text--color--regular') },
  { tag: [tags.number, tags.bool, tags.null, tags.keyword], color: variable('text--color--status--success--default') },
  { tag: [tags.comment, tags.lineComment], color: variable('text--color--subtle'), fontStyle: 'italic' },
]);

const setFaults = StateEffect.define<readonly Fault[]>();

const faultsField = StateField.define<readonly Fault[]>({
  create: () => [],
  update: (value, transaction) => transaction.effects.reduce((faults, effect) => (effect.is(setFaults) ? effect.value : faults), value),
});

/** marks shows errors of syntax, and the faults that the page sets. */
const marks: Extension = [
  faultsField,
  linter(
    ({ state }) => findMarks(state.doc.toString(), state.field(faultsField)).map((mark) => ({ ...mark, severity: 'error' as const })),
    { needsRefresh: (update) => update.transactions.some((t) => t.effects.some((effect) => effect.is(setFaults))) },
  ),
  lintGutter(),
];

const common: Extension = [
  yaml(), lineNumbers(), foldGutter(), highlightSelectionMatches(), search({ top: true }), drawSelection(), syntaxHighlighting(highlighting), theme,
  EditorView.lineWrapping, keymap.of([...searchKeymap, ...foldKeymap]),
];

const editing: Extension = [
  history(), indentOnInput(), bracketMatching(), highlightActiveLine(), marks, keymap.of([...defaultKeymap, ...historyKeymap, ...lintKeymap, indentWithTab]),
];

// A read-only text can have the focus, so that it can be scrolled and searched with the keyboard.
const reading: Extension = [EditorState.readOnly.of(true), EditorView.contentAttributes.of({ 'aria-readonly': 'true' }), keymap.of(defaultKeymap)];

/** ViewOptions are what a view shows when it is created. */
interface ViewOptions {
  label: string;
  text: string;
  isReadOnly: boolean;
  extension?: Extension;
  onEdit?: (text: string) => void;
}

/** useView shows a CodeMirror view in a shadow root, where its styles are adopted style sheets, as the content security policy requires. */
function useView(host: RefObject<HTMLDivElement | null>, { label, text, isReadOnly, extension = [], onEdit }: ViewOptions) {
  const view = useRef<EditorView>(null);
  const notify = useEffectEvent((edited: string) => { onEdit?.(edited); });
  const createState = useEffectEvent((listener: Extension) => {
    const labelled = EditorView.contentAttributes.of({ 'aria-label': label, spellcheck: 'false' });
    return EditorState.create({ doc: text, extensions: [common, isReadOnly ? reading : editing, labelled, listener, extension] });
  });
  useEffect(() => {
    if (host.current === null) return undefined;
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: 'open' });
    const listener = EditorView.updateListener.of((update) => { if (update.docChanged) notify(update.state.doc.toString()); });
    const created = new EditorView({ state: createState(listener), parent: root, root });
    view.current = created;
    return () => {
      created.destroy();
      view.current = null;
    };
  }, [host, label, isReadOnly]);
  return view;
}

/** replaceText changes the text of a view, unless it is the same. */
function replaceText(view: EditorView | null, text: string): void {
  if (view === null || view.state.doc.toString() === text) return;
  view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
}

interface EditorProps {
  label: string;
  value: string;
  onChange?: (value: string) => void;
  faults: readonly Fault[];
}

/** Editor is an editor of YAML. Without onChange it is read-only. */
export function Editor({ label, value, onChange, faults }: EditorProps) {
  const host = useRef<HTMLDivElement>(null);
  const isReadOnly = onChange === undefined;
  const onEdit = (text: string) => { if (text !== value) onChange?.(text); };
  const view = useView(host, { label, text: value, isReadOnly, onEdit });
  useEffect(() => { replaceText(view.current, value); }, [view, value, isReadOnly]);
  useEffect(() => { view.current?.dispatch({ effects: setFaults.of(faults) }); }, [view, faults, isReadOnly]);
  return <div ref={host} />;
}

/** Difference shows what changes from one text to another. */
export function Difference({ label, before, after }: { label: string; before: string; after: string }) {
  return <DifferenceView key={`${before}\n---\n${after}`} label={label} before={before} after={after} />;
}

function DifferenceView({ label, before, after }: { label: string; before: string; after: string }) {
  const host = useRef<HTMLDivElement>(null);
  const extension = unifiedMergeView({ original: before, mergeControls: false, gutter: true, collapseUnchanged: { margin: 3, minSize: 6 } });
  useView(host, { label, text: after, isReadOnly: true, extension });
  return <div ref={host} />;
}
