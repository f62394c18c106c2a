import { useMutation, useQueryClient, type UseMutationResult } from '@tanstack/react-query';

import type { Schemas } from '../../api/client';

/** The kinds behind the page of the cluster. */
export const clusterKinds = ['clusterversions', 'clusteroperators', 'machineconfigpools'] as const;

/** The key of the query for the version of the cluster. */
export const clusterKey = ['live', clusterKinds.join(','), 'cluster'] as const;

const versions = { group: 'config.openshift.io', resource: 'clusterversions' };

/** The right to change the version of the cluster. */
export const mayChangeVersion: Schemas['Permission'][] = [{ verb: 'patch', name: 'version', ...versions }];

/** The right to create the ClusterVersion. */
export const mayCreateVersion: Schemas['Permission'][] = [{ verb: 'create', ...versions }];

/** The right to pause and resume pools of nodes. */
export const mayChangePools: Schemas['Permission'][] = [{ verb: 'patch', group: 'machineconfiguration.openshift.io', resource: 'machineconfigpools' }];

/** useWrite returns a mutation after which the page asks for the present state. */
export function useWrite<V>(write: (variables: V) => Promise<unknown>, onDone: () => void): UseMutationResult<unknown, Error, V> {
  const queryClient = useQueryClient();
  return useMutation({
    mutationFn: write,
    onSuccess: async () => {
      await queryClient.invalidateQueries({ queryKey: ['live'] });
      onDone();
    },
  });
}

/** formatDuration returns a duration of Go, such as "1h2m3.5s", in hours and minutes, or in seconds if it is shorter than a minute. */
export function formatDuration(text: string): string {
  const match = /^(-?)(?:(\d+)h)?(?:(\d+)m)?(?:([\d.]+)s)?$/.exec(text);
  if (match === null) return text;
  const [, sign = '', hours = '0', minutes = '0', seconds = '0'] = match;
  const parts = [hours === '0' ? '' : `${hours} h`, minutes === '0' ? '' : `${minutes} min`].filter((part) => part !== '');
  return sign + (parts.length === 0 ? `${String(Math.floor(Number(seconds)))} s` : parts.join(' '));
}
