import { ClipboardCopy, Content, Flex, FlexItem, Masthead, MastheadBrand, MastheadContent, MastheadMain, Page, PageSection, Stack, StackItem, Title, Card, CardTitle, CardBody } from '@patternfly/react-core';
import { useQuery } from '@tanstack/react-query';
import { useEffect } from 'react';
import { HashRouter, Link, Navigate, Route, Routes, useParams } from 'react-router';

import { DetailsHeader } from '../src/components/details';
import { CatalogView } from '../src/components/hub/catalogview';
import { PackageIcon } from '../src/components/hub/icon';
import { PackageView } from '../src/components/hub/packageview';
import { SiteProvider } from '../src/components/hub/source';
import { Badges } from '../src/components/hub/tiles';
import { ErrorState, LoadingState } from '../src/components/states';
import { ThemeButton } from '../src/components/theme';
import { readPackage, readPackages, type Manifest } from './files';

// Addresses are relative to the page, so that the site works at any path. Its pages have fragments as addresses for the same reason.
const here = { iconAddress: (icon: string) => `icons/${icon}` };

/** Site shows a catalog from files. */
export function Site() {
  const packages = useQuery({ queryKey: ['packages'], queryFn: readPackages });
  const title = packages.data?.title ?? 'Catalog';
  useEffect(() => { document.title = title; }, [title]);
  return (
    <SiteProvider value={here}>
      <HashRouter>
        <Page masthead={<Head title={title} />}>
          <Routes>
            <Route index element={<Navigate to="/catalog" replace />} />
            <Route path="catalog" element={<CatalogPage />} />
            <Route path="catalog/:catalog/:name" element={<PackagePage />} />
            <Route path="*" element={<Navigate to="/catalog" replace />} />
          </Routes>
        </Page>
      </HashRouter>
    </SiteProvider>
  );
}

function Head({ title }: { title: string }) {
  return (
    <Masthead>
      <MastheadMain><MastheadBrand><Link to="/catalog"><strong>{title}</strong></Link></MastheadBrand></MastheadMain>
      <MastheadContent><Flex justifyContent={{ default: 'justifyContentFlexEnd' }}><FlexItem><ThemeButton /></FlexItem></Flex></MastheadContent>
    </Masthead>
  );
}

function CatalogPage() {
  const packages = useQuery({ queryKey: ['packages'], queryFn: readPackages });
  return (
    <>
      <PageSection>
        <Title headingLevel="h1">Catalog</Title>
        <Content component="p">Operators and extensions for Kubernetes, and how to install them with OLM.</Content>
      </PageSection>
      <PageSection isFilled>
        {packages.isPending && <LoadingState what="the catalog" />}
        {packages.isError && <ErrorState error={packages.error} onRetry={() => void packages.refetch()} />}
        {packages.isSuccess && <CatalogView packages={packages.data.packages} />}
      </PageSection>
    </>
  );
}

function PackagePage() {
  const { name = '' } = useParams();
  const details = useQuery({ queryKey: ['package', name], queryFn: () => readPackage(name) });
  return (
    <>
      <DetailsHeader title={details.data?.displayName ?? name} parent={{ path: '/catalog', title: 'Catalog' }}>
        {details.isSuccess && (
          <Flex>
            <FlexItem><PackageIcon p={details.data} /></FlexItem>
            <FlexItem>{details.data.name}</FlexItem>
            <FlexItem><Badges p={details.data} /></FlexItem>
          </Flex>
        )}
      </DetailsHeader>
      <PageSection isFilled>
        {details.isPending && <LoadingState what="the package" />}
        {details.isError && <ErrorState error={details.error} onRetry={() => void details.refetch()} />}
        {details.isSuccess && (
          <PackageView details={details.data} tabs={[{ key: 'install', title: 'Install', content: () => <Install name={name} manifests={details.data.manifests} /> }]} />
        )}
      </PageSection>
    </>
  );
}

function Install({ name, manifests }: { name: string; manifests: readonly Manifest[] }) {
  return (
    <Stack hasGutter>
      {manifests.map(({ kind, file, yaml }) => {
        const address = new URL(`install/${name}/${file}`, document.baseURI).href;
        return (
          <StackItem key={kind}>
            <Card>
              <CardTitle>{kind === 'ClusterExtension' ? 'With OLM v1' : 'With OLM Classic'}</CardTitle>
              <CardBody>
                <Stack hasGutter>
                  <StackItem><ClipboardCopy isReadOnly hoverTip="Copy" clickTip="Copied">{`kubectl apply -f ${address}`}</ClipboardCopy></StackItem>
                  <StackItem><ClipboardCopy isCode isReadOnly isExpanded hoverTip="Copy" clickTip="Copied" variant="expansion">{yaml}</ClipboardCopy></StackItem>
                </Stack>
              </CardBody>
            </Card>
          </StackItem>
        );
      })}
    </Stack>
  );
}
