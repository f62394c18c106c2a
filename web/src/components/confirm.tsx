import { Button, Form, FormGroup, Modal, ModalBody, ModalFooter, ModalHeader, TextInput } from '@patternfly/react-core';
import { useId, useState, type ReactNode, type SyntheticEvent } from 'react';

import { ApiError } from '../api/client';
import { ProblemAlert } from './states';

/** Confirmation is what a dialog asks before something is written. */
export interface Confirmation {
  title: string;
  /** What happens, in words. */
  children: ReactNode;
  /** The text of the button, a verb such as "Uninstall". */
  action: string;
  /** What a person must type before the button works, such as the name of what is removed. Undefined asks for nothing. */
  typed?: string | undefined;
  isDanger?: boolean;
  /** Why the button does not work, beside a missing confirmation. */
  isDisabled?: boolean;
  isPending: boolean;
  error: Error | null;
  onConfirm: () => void;
  onClose: () => void;
}

/** ConfirmDialog asks before something is written, and keeps its content if the write fails. */
export function ConfirmDialog({ title, children, action, typed, isDanger, isDisabled, isPending, error, onConfirm, onClose }: Confirmation) {
  const [text, setText] = useState('');
  const formId = useId();
  const isReady = isDisabled !== true && !isPending && (typed === undefined || text === typed);
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    if (isReady) onConfirm();
  };
  return (
    <Modal isOpen variant="medium" aria-label={title} onClose={onClose}>
      <ModalHeader title={title} {...(isDanger === true ? { titleIconVariant: 'danger' as const } : {})} />
      <ModalBody>
        <Form id={formId} onSubmit={submit}>
          {children}
          {typed !== undefined && <TypedName typed={typed} text={text} onChange={setText} />}
          {error !== null && <ProblemAlert title="This was not done" message={error.message} advice={error instanceof ApiError ? error.advice : undefined} />}
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button type="submit" form={formId} variant={isDanger === true ? 'danger' : 'primary'} isDisabled={!isReady} isLoading={isPending}>{action}</Button>
        <Button variant="link" onClick={onClose}>Cancel</Button>
      </ModalFooter>
    </Modal>
  );
}

function TypedName({ typed, text, onChange }: { typed: string; text: string; onChange: (text: string) => void }) {
  const id = useId();
  return (
    <FormGroup fieldId={id} label={<>Type <strong>{typed}</strong> to confirm</>}>
      <TextInput id={id} value={text} onChange={(_event, value) => { onChange(value); }} autoComplete="off" spellCheck="false" />
    </FormGroup>
  );
}
