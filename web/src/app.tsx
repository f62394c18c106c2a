import { BrowserRouter, Route, Routes, Navigate } from 'react-router';

import { Layout } from './components/layout';
import { ExtensionPage } from './pages/extension';
import { InstalledPage } from './pages/installed';
import { OperatorPage } from './pages/operator';
import { NotFoundPage } from './pages/notfound';
import { SessionProvider } from './session';

/** App is the console: its sign-in, and its pages by address. */
export function App() {
  return (
    <SessionProvider>
      <BrowserRouter>
        <Routes>
          <Route element={<Layout />}>
            <Route index element={<Navigate to="/installed" replace />} />
            <Route path="installed" element={<InstalledPage />} />
            <Route path="installed/extensions/:name" element={<ExtensionPage />} />
            <Route path="installed/subscriptions/:namespace/:name" element={<OperatorPage />} />
            <Route path="*" element={<NotFoundPage />} />
          </Route>
        </Routes>
      </BrowserRouter>
    </SessionProvider>
  );
}
