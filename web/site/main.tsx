import '@patternfly/react-core/dist/styles/base.css';
import '../src/main.css';

import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { StrictMode } from 'react';
import { createRoot } from 'react-dom/client';

import { Site } from './site';

const queryClient = new QueryClient({ defaultOptions: { queries: { staleTime: Infinity } } });
const root = document.getElementById('root');
if (root === null) throw new Error('index.html has no element "root"');
createRoot(root).render(
  <StrictMode>
    <QueryClientProvider client={queryClient}>
      <Site />
    </QueryClientProvider>
  </StrictMode>,
);
