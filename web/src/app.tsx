import { lazy } from 'react';
import { BrowserRouter, Route, Routes, Navigate, useLocation } from 'react-router';

import { Layout } from './components/layout';
import { NotFoundPage } from './pages/notfound';
import { SessionProvider } from './session';

// Each page is a file of its own, which the browser reads when the page is opened.
const CatalogPage = lazy(async () => ({ default: (await import('./pages/catalog')).CatalogPage }));
const PackagePage = lazy(async () => ({ default: (await import('./pages/package')).PackagePage }));
const InstalledPage = lazy(async () => ({ default: (await import('./pages/installed')).InstalledPage }));
const ExtensionPage = lazy(async () => ({ default: (await import('./pages/extension')).ExtensionPage }));
const InstallExtensionPage = lazy(async () => ({ default: (await import('./pages/installextension')).InstallExtensionPage }));
const InstallSubscriptionPage = lazy(async () => ({ default: (await import('./pages/installsubscription')).InstallSubscriptionPage }));
const OperatorPage = lazy(async () => ({ default: (await import('./pages/operator')).OperatorPage }));
const ClusterPage = lazy(async () => ({ default: (await import('./pages/cluster')).ClusterPage }));
const SourcesPage = lazy(async () => ({ default: (await import('./pages/sources')).SourcesPage }));
const OverviewPage = lazy(async () => ({ default: (await import('./pages/overview')).OverviewPage }));
const OwnerPage = lazy(async () => ({ default: (await import('./pages/operands/owner')).OwnerPage }));
const OperandsPage = lazy(async () => ({ default: (await import('./pages/operands/list')).OperandsPage }));
const OperandPage = lazy(async () => ({ default: (await import('./pages/operands/object')).OperandPage }));
const CreateOperandPage = lazy(async () => ({ default: (await import('./pages/operands/edit')).CreateOperandPage }));
const EditOperandPage = lazy(async () => ({ default: (await import('./pages/operands/edit')).EditOperandPage }));

/** App is the console: its sign-in, and its pages by address. */
export function App() {
  return (
    <SessionProvider>
      <BrowserRouter>
        <Routes>
          <Route element={<Layout />}>
            <Route index element={<OverviewPage />} />
            <Route path="catalog" element={<CatalogPage />} />
            <Route path="catalog/:catalog/:name" element={<PackagePage />} />
            <Route path="operatorhub/*" element={<OldCatalogAddress />} />
            <Route path="installed" element={<InstalledPage />} />
            <Route path="installed/extensions/:name" element={<ExtensionPage />} />
            <Route path="installed/subscriptions/:namespace/:name" element={<OperatorPage />} />
            <Route path="cluster" element={<ClusterPage />} />
            <Route path="sources" element={<SourcesPage />} />
            <Route path="install/extension" element={<InstallExtensionPage />} />
            <Route path="install/subscription" element={<InstallSubscriptionPage />} />
            <Route path="operands/extensions/:name" element={<OwnerPage system="extension" />} />
            <Route path="operands/subscriptions/:namespace/:name" element={<OwnerPage system="subscription" />} />
            <Route path="operands/csvs/:namespace/:name" element={<OwnerPage system="csv" />} />
            <Route path="operands/:group/:version/:plural" element={<OperandsPage />} />
            <Route path="operands/:group/:version/:plural/create" element={<CreateOperandPage />} />
            <Route path="operands/:group/:version/:plural/objects/:name" element={<OperandPage />} />
            <Route path="operands/:group/:version/:plural/objects/:name/edit" element={<EditOperandPage />} />
            <Route path="*" element={<NotFoundPage />} />
          </Route>
        </Routes>
      </BrowserRouter>
    </SessionProvider>
  );
}

/** OldCatalogAddress leads from the address that other consoles use to the catalog, with its parameters. */
function OldCatalogAddress() {
  const { search } = useLocation();
  return <Navigate to={`/catalog${search}`} replace />;
}
