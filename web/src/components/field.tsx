import { FormGroup, FormHelperText, HelperText, HelperTextItem } from '@patternfly/react-core';
import { useId, type ReactNode } from 'react';

/** Field is a field of a form with a label and help. Its children get the id that connects them with the label. */
export function Field({ label, help, isRequired = false, children }: { label: string; help: ReactNode; isRequired?: boolean; children: (id: string) => ReactNode }) {
  const id = useId();
  return <FormGroup label={label} fieldId={id} isRequired={isRequired}>{children(id)}<Help>{help}</Help></FormGroup>;
}

/** Help is text below a field. */
export function Help({ children }: { children: ReactNode }) {
  return <FormHelperText><HelperText><HelperTextItem>{children}</HelperTextItem></HelperText></FormHelperText>;
}
