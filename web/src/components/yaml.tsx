import { HelperText, HelperTextItem, Skeleton } from '@patternfly/react-core';
import { lazy, Suspense } from 'react';

import type { Fault } from './yamltext';

// CodeMirror is larger than all pages together. The browser reads it when the first editor is shown.
const Editor = lazy(async () => ({ default: (await import('./codemirror')).Editor }));
const Difference = lazy(async () => ({ default: (await import('./codemirror')).Difference }));

const waiting = <Skeleton height="20rem" screenreaderText="Reading the editor" />;

interface YamlEditorProps {
  /** label is the name of the editor for screen readers. */
  label: string;
  value: string;
  onChange: (value: string) => void;
  /** faults are shown at the fields that they concern. Errors of syntax are found by the editor. */
  faults?: readonly Fault[];
}

/** YamlEditor edits a text with YAML. */
export function YamlEditor({ label, value, onChange, faults = none }: YamlEditorProps) {
  return (
    <>
      <Suspense fallback={waiting}><Editor label={label} value={value} onChange={onChange} faults={faults} /></Suspense>
      <HelperText>
        <HelperTextItem>To leave the editor with the keyboard, press Escape, then Tab. To search, press Ctrl+F (⌘F on macOS).</HelperTextItem>
      </HelperText>
    </>
  );
}

const none: readonly Fault[] = [];

/** YamlViewer shows a text with YAML. It can be searched and copied. */
export function YamlViewer({ label, value }: { label: string; value: string }) {
  return <Suspense fallback={waiting}><Editor label={label} value={value} faults={none} /></Suspense>;
}

/** YamlDifference shows what changes from one text to another, line by line. */
export function YamlDifference({ label, before, after }: { label: string; before: string; after: string }) {
  return <Suspense fallback={waiting}><Difference label={label} before={before} after={after} /></Suspense>;
}
