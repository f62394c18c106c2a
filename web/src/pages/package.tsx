import { Alert, Button, Card, CardBody, CardTitle, Flex, FlexItem, Label, PageSection, Stack, StackItem } from '@patternfly/react-core';
import { useQuery } from '@tanstack/react-query';
import { Link, useParams, useSearchParams } from 'react-router';

import { api, unwrap, type Schemas } from '../api/client';
import { CatalogLink } from '../components/cataloglink';
import { DetailsHeader } from '../components/details';
import { PackageIcon } from '../components/hub/icon';
import { installedItems } from '../components/hub/installed';
import { PackageView, type PackageTab } from '../components/hub/packageview';
import { chooseVersion, type PackageDetails } from '../components/hub/versions';
import { useNamespace } from '../components/namespace';
import { PermissionRules } from '../components/permissions';
import { ErrorState, LoadingState } from '../components/states';
import { useLive } from '../live';

const catalogKinds = ['clustercatalogs', 'catalogsources'];
const installedKinds = ['clusterextensions', 'subscriptions', 'clusterserviceversions', 'installplans'];
const kinds = [...catalogKinds, ...installedKinds];

/** PackagePage shows a package of a catalog before it is installed. */
export function PackagePage() {
  const { catalog = '', name = '' } = useParams();
  const [namespace] = useNamespace();
  useLive(kinds, namespace);
  const details = useQuery({
    queryKey: ['live', catalogKinds.join(','), 'package', catalog, name, namespace],
    queryFn: () => unwrap(api.GET('/api/v1/packages/{catalog}/{name}', { params: { path: { catalog, name }, query: { namespace } } })),
    staleTime: 300_000,
  });
  const tabs: PackageTab[] = catalog.includes(':') ? [] : [
    { key: 'rights', title: 'Rights', content: (version) => <Rights catalog={catalog} name={name} version={version?.version ?? ''} /> },
  ];
  return (
    <>
      <DetailsHeader title={details.data?.displayName ?? name} parent={{ path: '/catalog', title: 'Catalog' }}>
        {details.isSuccess && <Head details={details.data} namespace={namespace} />}
      </DetailsHeader>
      <PageSection isFilled>
        {details.isPending && <LoadingState what="the package" />}
        {details.isError && <ErrorState error={details.error} onRetry={() => void details.refetch()} actions={<CatalogLink />} />}
        {details.isSuccess && <PackageView details={details.data} tabs={tabs} />}
      </PageSection>
    </>
  );
}

function Head({ details, namespace }: { details: Schemas['PackageDetails']; namespace: string }) {
  const [parameters] = useSearchParams();
  const installed = useQuery({
    queryKey: ['live', installedKinds.join(','), 'installed', namespace],
    queryFn: () => unwrap(api.GET('/api/v1/installed', { params: { query: { namespace } } })),
  });
  return (
    <Stack hasGutter>
      <StackItem>
        <Flex alignItems={{ default: 'alignItemsCenter' }}>
          <FlexItem><PackageIcon p={details} /></FlexItem>
          <FlexItem>{details.name} <Label isCompact variant="outline">{details.catalog.replace(':', '/')}</Label></FlexItem>
          <FlexItem>
            {details.refusal === undefined
              ? <Button variant="primary" component={(props) => <Link {...props} to={installPath(details, parameters)} />}>Install</Button>
              : <Button variant="primary" isAriaDisabled>Install</Button>}
          </FlexItem>
        </Flex>
      </StackItem>
      {installedItems(details, installed.data?.items ?? []).map((item) => (
        <StackItem key={`${item.namespace ?? ''}/${item.name}`}>
          <Alert isInline variant="info" title={<>It is installed as <Link to={itemPath(item)}>{item.name}</Link>: version {item.version ?? 'none yet'}, state {item.state}.</>} />
        </StackItem>
      ))}
    </Stack>
  );
}

function itemPath({ kind, namespace, name }: Schemas['Item']): string {
  return kind === 'ClusterExtension' ? `/installed/extensions/${encodeURIComponent(name)}` : `/installed/subscriptions/${encodeURIComponent(namespace ?? '')}/${encodeURIComponent(name)}`;
}

/** installPath returns the address of the page that installs what the address of a package chooses. Without a choice, the catalog decides, now and for updates. */
export function installPath(details: PackageDetails, chosen: URLSearchParams): string {
  const [namespace, source] = details.catalog.split(':');
  const isClassic = source !== undefined;
  const parameters = new URLSearchParams({ package: details.name, catalog: isClassic ? `${namespace ?? ''}/${source}` : details.catalog });
  const scope = chosen.get('namespace') ?? '';
  if (isClassic && scope !== '') parameters.set('namespace', scope);
  const { channel, version } = chooseVersion(details, chosen.get('channel'), chosen.get('version'));
  if (channel !== undefined && channel.name === chosen.get('channel')) parameters.set('channel', channel.name);
  const wanted = isClassic ? version?.name : version?.version;
  if (wanted !== undefined && version?.name === chosen.get('version')) parameters.set('version', wanted);
  return `/install/${isClassic ? 'subscription' : 'extension'}?${parameters.toString()}`;
}

/** Rights shows what the service account of the extension may do. The bundle is read for it, so it is asked only here. */
function Rights({ catalog, name, version }: { catalog: string; name: string; version: string }) {
  const rights = useQuery({
    queryKey: ['rights', catalog, name, version],
    queryFn: () => unwrap(api.GET('/api/v1/packages/{catalog}/{name}/rights', { params: { path: { catalog, name }, query: { version } } })),
    staleTime: Infinity,
  });
  if (rights.isPending) return <LoadingState what="the bundle" />;
  if (rights.isError) return <ErrorState error={rights.error} onRetry={() => void rights.refetch()} />;

  const namespaces = [...new Set(rights.data.rights.map((right) => right.namespace ?? ''))];
  return (
    <Stack hasGutter>
      <StackItem>The installation of {rights.data.bundle} needs a service account with these rights. They include all that the operator itself may do.</StackItem>
      {namespaces.map((namespace) => (
        <StackItem key={namespace}>
          <Card>
            <CardTitle>{namespace === '' ? 'In the whole cluster' : `In namespace ${namespace}`}</CardTitle>
            <CardBody><PermissionRules rules={rights.data.rights.filter((right) => (right.namespace ?? '') === namespace)} /></CardBody>
          </Card>
        </StackItem>
      ))}
    </Stack>
  );
}
