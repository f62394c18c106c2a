import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

// The static site of `mainstay catalog site` is built after the console, into a folder of its build. Its addresses are relative.
export default defineConfig({
  root: 'site',
  base: './',
  publicDir: '../public',
  plugins: [react()],
  build: {
    target: 'es2022',
    outDir: '../dist/site',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
  },
});
