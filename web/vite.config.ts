import react from '@vitejs/plugin-react';
import { defineConfig } from 'vitest/config';

// The build is embedded into the program and compared by the gate, so it must not depend on the time, the machine, or the order in
// which files are read.
export default defineConfig({
  plugins: [react()],
  build: {
    target: 'es2022',
    outDir: 'dist',
    assetsInlineLimit: 0, // the content security policy allows no inline scripts
    modulePreload: { polyfill: false },
    sourcemap: false,
  },
  server: { proxy: { '/api': 'http://127.0.0.1:8090', '/auth': 'http://127.0.0.1:8090' } },
  test: { environment: 'jsdom', include: ['src/**/*.test.{ts,tsx}'], css: false, testTimeout: 60_000, server: { deps: { inline: [/patternfly/] } } },
});
