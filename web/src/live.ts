import { useQueryClient, type QueryClient } from '@tanstack/react-query';
import { useEffect, useState } from 'react';

/** Liveness says whether a page follows changes. */
export type Liveness = 'connecting' | 'live' | 'lost';

/**
 * useLive asks for queries again when objects of the kinds change. The first element of the key of such a query is "live", and the
 * following are its kinds, joined by commas.
 */
export function useLive(kinds: readonly string[], namespace: string): Liveness {
  const queryClient = useQueryClient();
  const [liveness, setLiveness] = useState<Liveness>('connecting');
  const joined = kinds.join(',');
  useEffect(() => {
    const parameters = new URLSearchParams({ kinds: joined, namespace });
    let source: EventSource | undefined;
    const connect = () => {
      source?.close();
      source = new EventSource(`/api/v1/events?${parameters.toString()}`);
      source.onopen = () => { setLiveness('live'); };
      source.onerror = () => { setLiveness('lost'); };
      source.addEventListener('changed', (event: MessageEvent<string>) => {
        const { kind } = JSON.parse(event.data) as { kind: string };
        void invalidateKind(queryClient, kind);
      });
      source.addEventListener('signedOut', () => {
        source?.close();
        void queryClient.invalidateQueries();
      });
    };
    // A stream can stay open for a long time after the network has gone.
    const disconnect = () => {
      source?.close();
      setLiveness('lost');
    };
    connect();
    window.addEventListener('offline', disconnect);
    window.addEventListener('online', connect);
    return () => {
      window.removeEventListener('offline', disconnect);
      window.removeEventListener('online', connect);
      source?.close();
    };
  }, [queryClient, joined, namespace]);
  return liveness;
}

/** invalidateKind asks again for the queries that show objects of a kind. */
export async function invalidateKind(queryClient: QueryClient, kind: string): Promise<void> {
  await queryClient.invalidateQueries({
    predicate: ({ queryKey: [first, kinds] }) => first === 'live' && typeof kinds === 'string' && kinds.split(',').includes(kind),
  });
}
