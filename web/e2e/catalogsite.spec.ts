import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';

import type { Page } from 'playwright-core';

import { expectAccessible, expectFitting, expectNoErrors, expectText, openWindow, savePicture, startBrowser } from './browser.ts';
import { mainstay, packageBlobs, writeCatalog } from './site.ts';

startBrowser();

const script = 'window.hacked = 1';
let folder = '';
let origin = '';
const server = createServer((request, response) => {
  const { pathname } = new URL(request.url ?? '/', 'http://localhost');
  const types: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json', '.svg': 'image/svg+xml' };
  const file = path.join(folder, pathname.replace(/^\/deep\/path/, '').replace(/\/$/, '/index.html'));
  readFile(file).then(
    (content) => response.writeHead(200, { 'Content-Type': types[path.extname(file)] ?? 'application/octet-stream' }).end(content),
    () => response.writeHead(404).end(),
  );
});

before(async () => {
  const parent = await mkdtemp(path.join(tmpdir(), 'mainstay-e2e-site-'));
  folder = path.join(parent, 'site');
  const catalog = await writeCatalog([
    ...packageBlobs('kettle', { displayName: 'Kettle', description: 'It boils water.\n\n## Use\n\nPour it.' }),
    ...packageBlobs('hostile', {
      displayName: `<img src=x onerror="${script}">`, description: `<script>${script}</script>[a](javascript:${script}) <iframe src="https://example.com"></iframe>`,
      icon: `<svg xmlns="http://www.w3.org/2000/svg" onload="${script}"/>`,
    }),
  ]);
  await mainstay('catalog', 'site', catalog, '-o', folder, '--name', 'kitchen', '--title', 'Kitchen operators');
  await rm(catalog, { recursive: true });
  await new Promise<void>((resolve) => { server.listen(0, '127.0.0.1', resolve); });
  // Any path works.
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}/deep/path/`;
});
after(async () => {
  server.close();
  server.closeAllConnections();
  await rm(path.dirname(folder), { recursive: true });
});

/** recordForeign returns the addresses of other servers that a page asks for. */
function recordForeign(page: Page): string[] {
  const foreign: string[] = [];
  page.on('request', (request) => { if (!request.url().startsWith(origin) && !request.url().startsWith('data:')) foreign.push(request.url()); });
  return foreign;
}

test('a static site finds a package and shows how to install it', async () => {
  const page = await openWindow(origin);
  const foreign = recordForeign(page);
  await page.getByRole('link', { name: 'Kitchen operators' }).waitFor();
  await page.getByLabel('Search packages').fill('boils');
  await page.getByRole('link', { name: 'Kettle' }).waitFor();
  await expectAccessible(page);
  await page.getByRole('link', { name: 'Kettle' }).click();
  await page.getByRole('heading', { level: 1, name: 'Kettle' }).waitFor();
  await page.getByRole('tab', { name: 'Install' }).click();
  await expectText(page, /kind: ClusterExtension/);
  await savePicture(page, 'catalog-site');
  await expectAccessible(page);
  assert.deepEqual(foreign, [], 'requests to other servers');
  expectNoErrors(page);
});

test('a static site works with the keyboard, and says that nothing matches', async () => {
  const page = await openWindow(origin, { width: 400 });
  const search = page.getByLabel('Search packages');
  await search.focus();
  await page.keyboard.type('zzzzzz');
  await expectText(page, 'No package matches');
  await expectAccessible(page);
  await page.getByRole('button', { name: 'Clear all filters' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'Kettle' }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'Kettle' }).waitFor();
  await expectFitting(page);
  expectNoErrors(page);
});

test('a static site says that a package is missing', async () => {
  const page = await openWindow(`${origin}#/catalog/kitchen/none-such`);
  await expectText(page, 'This could not be read');
  await page.getByRole('button', { name: 'Try again' }).waitFor();
  await expectAccessible(page);
});

test('what authors write is text on a static site, too', async () => {
  const page = await openWindow(origin);
  const foreign = recordForeign(page);
  await page.getByRole('link', { name: '<img src=x' }).click();
  await page.getByRole('heading', { level: 1, name: '<img src=x' }).waitFor();
  assert.equal(await page.evaluate(() => 'hacked' in window), false, 'a script of an author has run');
  assert.equal(await page.locator('img[src="x"], main script, iframe, a[href^="javascript:"]').count(), 0, 'elements of an author');
  assert.deepEqual(foreign, [], 'requests to other servers');
  await expectAccessible(page);
  expectNoErrors(page);
});
