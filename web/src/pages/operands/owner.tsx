import { Card, CardBody, CardTitle, Gallery, PageSection } from '@patternfly/react-core';
import { useQuery } from '@tanstack/react-query';
import { Link, useParams } from 'react-router';

import { api, unwrap, type Schemas } from '../../api/client';
import { DetailsHeader } from '../../components/details';
import { LivenessHint } from '../../components/liveness';
import { ErrorState, LoadingState, NothingState } from '../../components/states';
import { useLive } from '../../live';
import { createAddress, listAddress, useAccess } from './shared';

const kinds = ['clusterextensions', 'clusterobjectsets', 'subscriptions', 'clusterserviceversions'];

/** OwnerPage lists the kinds of custom resources that an extension or operator provides. */
export function OwnerPage({ system }: { system: 'extension' | 'subscription' | 'csv' }) {
  const { namespace = '', name = '' } = useParams();
  const liveness = useLive(kinds, namespace);
  const apis = useQuery({ queryKey: ['live', kinds.join(','), 'apis', system, namespace, name], queryFn: () => readAPIs(system, namespace, name) });
  const parent = system === 'extension' ? `/installed/extensions/${encodeURIComponent(name)}` : `/installed/subscriptions/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`;
  return (
    <>
      <DetailsHeader title={`Custom resources of ${name}`} parent={system === 'csv' ? { path: '/installed', title: 'Installed' } : { path: parent, title: name }}>
        <LivenessHint liveness={liveness} />
      </DetailsHeader>
      <PageSection isFilled>
        {apis.isPending && <LoadingState what="the kinds" />}
        {apis.isError && <ErrorState error={apis.error} onRetry={() => void apis.refetch()} />}
        {apis.isSuccess && apis.data.items.length === 0 && <NothingState title="No custom resources">What is installed provides no kinds for users, or is not installed completely yet.</NothingState>}
        {apis.isSuccess && (
          <Gallery hasGutter minWidths={{ default: '18rem' }}>
            {apis.data.items.map((item) => <APICard key={`${item.plural}.${item.group}/${item.version}`} item={item} namespace={namespace} />)}
          </Gallery>
        )}
      </PageSection>
    </>
  );
}

function readAPIs(system: 'extension' | 'subscription' | 'csv', namespace: string, name: string): Promise<Schemas['OperandAPIs']> {
  switch (system) {
    case 'extension': return unwrap(api.GET('/api/v1/extensions/{name}/apis', { params: { path: { name } } }));
    case 'subscription': return unwrap(api.GET('/api/v1/namespaces/{namespace}/subscriptions/{name}/apis', { params: { path: { namespace, name } } }));
    case 'csv': return unwrap(api.GET('/api/v1/namespaces/{namespace}/clusterserviceversions/{name}/apis', { params: { path: { namespace, name } } }));
  }
}

function APICard({ item, namespace }: { item: Schemas['OperandAPI']; namespace: string }) {
  const place = item.namespaced ? namespace : '';
  const access = useAccess(item, place);
  const title = item.displayName ?? (item.kind === '' ? item.plural : item.kind);
  return (
    <Card isCompact>
      <CardTitle>{title}</CardTitle>
      <CardBody>
        <p className="mainstay-message">{item.kind} {item.group}/{item.version}{item.namespaced ? '' : ', for the whole cluster'}</p>
        {item.description !== undefined && <p className="mainstay-text">{item.description}</p>}
        {item.missing === true
          ? <p>The API server does not serve this kind yet.</p>
          : <p><Link to={listAddress(item, place)}>Show all</Link>{access.create && <> · <Link to={createAddress(item, place)}>Create</Link></>}</p>}
      </CardBody>
    </Card>
  );
}
