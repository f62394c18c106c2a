import { Content, PageSection, Title } from '@patternfly/react-core';
import { useQuery } from '@tanstack/react-query';
import { useCallback } from 'react';

import { api, unwrap, type Schemas } from '../api/client';
import { CatalogView } from '../components/hub/catalogview';
import { badgeFor } from '../components/hub/installed';
import type { PackageSummary } from '../components/hub/search';
import { LivenessHint } from '../components/liveness';
import { useNamespace } from '../components/namespace';
import { ErrorState, LoadingState, NothingState, ProblemAlert } from '../components/states';
import { useLive } from '../live';

const catalogKinds = ['clustercatalogs', 'catalogsources'];
const installedKinds = ['clusterextensions', 'subscriptions', 'clusterserviceversions', 'installplans'];
const kinds = [...catalogKinds, ...installedKinds];

/** CatalogPage shows the packages that can be installed. */
export function CatalogPage() {
  const [namespace] = useNamespace();
  const liveness = useLive(kinds, namespace);
  const packages = useQuery({
    queryKey: ['live', catalogKinds.join(','), 'packages', namespace],
    queryFn: () => unwrap(api.GET('/api/v1/packages', { params: { query: { namespace } } })),
    staleTime: 300_000,
    // A catalog that is being read for the first time has its packages a moment later.
    refetchInterval: ({ state: { data } }) => (data?.catalogs.some(({ state }) => state === 'Reading') === true ? 3000 : false),
  });
  return (
    <>
      <PageSection>
        <Title headingLevel="h1">Catalog</Title>
        <Content component="p">Packages of OLM v1 and OLM Classic{namespace === '' ? '' : ` that are offered in namespace ${namespace}`}.</Content>
        <LivenessHint liveness={liveness} />
      </PageSection>
      <PageSection isFilled>
        {packages.isPending && <LoadingState what="the catalogs" />}
        {packages.isError && <ErrorState error={packages.error} onRetry={() => void packages.refetch()} />}
        {packages.isSuccess && <Packages packages={packages.data} namespace={namespace} />}
      </PageSection>
    </>
  );
}

function Packages({ packages, namespace }: { packages: Schemas['Packages']; namespace: string }) {
  const installed = useQuery({
    queryKey: ['live', installedKinds.join(','), 'installed', namespace],
    queryFn: () => unwrap(api.GET('/api/v1/installed', { params: { query: { namespace } } })),
  });
  const items = installed.data?.items;
  const badgeOf = useCallback((p: PackageSummary) => badgeFor(p, items ?? []), [items]);
  const problems = packages.problems ?? [];
  return (
    <>
      {problems.map((p) => <ProblemAlert key={p.kind} title={`${p.kind} are missing from this list`} message={p.message} advice={p.advice} isForbidden={p.forbidden} />)}
      {packages.catalogs.map((c) => <CatalogProblem key={c.name} catalog={c} />)}
      {packages.items.length === 0 && problems.length === 0 && packages.catalogs.length === 0 && (
        <NothingState title="There are no catalogs">Add one with 'mainstay catalog add NAME --image REF'.</NothingState>
      )}
      {packages.items.length > 0 && <CatalogView packages={packages.items} badgeOf={badgeOf} />}
    </>
  );
}

function CatalogProblem({ catalog: { name, state, message, advice } }: { catalog: Schemas['CatalogState'] }) {
  if (state === 'Reading') return <LoadingState what={`catalog ${name}`} />;
  if (message === undefined) return null;
  return <ProblemAlert isForbidden title={state === 'Ready' ? `Some packages of catalog ${name} are missing` : `Catalog ${name} cannot be read`} message={message} advice={advice} />;
}
