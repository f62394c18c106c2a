import { ActionGroup, Alert, Button, Form, FormGroup, LoginPage, TextArea } from '@patternfly/react-core';
import { useMutation, useQueryClient } from '@tanstack/react-query';
import { useState, type SyntheticEvent } from 'react';

import { api, ApiError, setCSRFToken, unwrap } from '../api/client';
import { ProblemAlert } from '../components/states';
import { sessionKey } from '../session';

/** SignInPage signs users in. */
export function SignInPage({ method, problem }: { method: 'secret' | 'token' | 'oidc'; problem?: ApiError }) {
  return (
    <LoginPage loginTitle="Mainstay" loginSubtitle="Extensions, operators and the version of your cluster">
      {problem !== undefined && <ProblemAlert title="Signing in failed" message={problem.message} advice={problem.advice} />}
      {method === 'oidc' && <Button component="a" href="/auth/login" isBlock>Sign in with your identity provider</Button>}
      {method === 'secret' && problem === undefined && (
        <Alert isInline variant="info" title="Open the address that 'mainstay console' printed">It signs you in once. Run the command again for a new address.</Alert>
      )}
      {method === 'token' && <TokenForm />}
    </LoginPage>
  );
}

function TokenForm() {
  const queryClient = useQueryClient();
  const [token, setToken] = useState('');
  const signIn = useMutation({
    mutationFn: () => unwrap(api.POST('/api/v1/session', { body: { token: token.trim() } })),
    onSuccess: (session) => {
      setCSRFToken(session.csrfToken ?? '');
      queryClient.setQueryData(sessionKey, session);
    },
  });
  const submit = (event: SyntheticEvent) => {
    event.preventDefault();
    signIn.mutate();
  };
  return (
    <Form onSubmit={submit}>
      {signIn.error !== null && <ProblemAlert title="Signing in failed" message={signIn.error.message} advice={signIn.error instanceof ApiError ? signIn.error.advice : undefined} />}
      <FormGroup label="Token" fieldId="token" isRequired>
        <TextArea id="token" value={token} onChange={(_event, value) => { setToken(value); }} rows={6} autoComplete="off" spellCheck={false} />
      </FormGroup>
      <ActionGroup>
        <Button type="submit" isBlock isDisabled={token.trim() === ''} isLoading={signIn.isPending}>Sign in</Button>
      </ActionGroup>
    </Form>
  );
}
