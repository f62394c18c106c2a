import { useQuery, useQueryClient } from '@tanstack/react-query';
import { createContext, useContext, useEffect, type ReactNode } from 'react';

import { api, ApiError, onSignedOut, setCSRFToken, unwrap, type Schemas } from './api/client';
import { ErrorState, LoadingState } from './components/states';
import { SignInPage } from './pages/signin';

type SessionInfo = Schemas['SessionInfo'];

const SessionContext = createContext<SessionInfo | undefined>(undefined);

/** useSession returns who is signed in. */
export function useSession(): SessionInfo {
  const session = useContext(SessionContext);
  if (session === undefined) throw new Error('useSession is called outside of SessionProvider');
  return session;
}

/** sessionKey is the key of the query for the session. */
export const sessionKey = ['session'] as const;

/** readSession asks who is signed in. If the address has the one-time secret of `mainstay console`, it signs in with it. */
async function readSession(): Promise<SessionInfo> {
  const secret = takeSecret();
  let session = await unwrap(api.GET('/api/v1/session'));
  if (!session.signedIn && secret !== '') {
    session = await unwrap(api.POST('/api/v1/session', { body: { secret } }));
  }
  setCSRFToken(session.csrfToken ?? '');
  return session;
}

/** takeSecret returns the secret in the fragment of the address, and removes it from the address and the history. */
function takeSecret(): string {
  const secret = new URLSearchParams(window.location.hash.slice(1)).get('secret') ?? '';
  if (secret !== '') window.history.replaceState(null, '', window.location.pathname + window.location.search);
  return secret;
}

/** SessionProvider shows the pages to signed-in users, and the sign-in to others. */
export function SessionProvider({ children }: { children: ReactNode }) {
  const queryClient = useQueryClient();
  const session = useQuery({ queryKey: sessionKey, queryFn: readSession, staleTime: Infinity });
  useEffect(() => onSignedOut(() => { void queryClient.resetQueries({ queryKey: sessionKey }); }), [queryClient]);

  if (session.isPending) return <LoadingState what="the session" />;
  if (session.isError) {
    if (session.error instanceof ApiError && session.error.status === 401) {
      return <SignInPage method="secret" problem={session.error} />;
    }
    return <ErrorState error={session.error} onRetry={() => void session.refetch()} />;
  }
  if (!session.data.signedIn) return <SignInPage method={session.data.signIn} />;
  return <SessionContext value={session.data}>{children}</SessionContext>;
}
