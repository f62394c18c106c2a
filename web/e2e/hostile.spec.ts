import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import type { Page } from 'playwright-core';

import { expectAccessible, expectFitting, expectNoErrors, signIn, startBrowser } from './browser.ts';
import { addCatalog, apply, kubectl, packageBlobs } from './site.ts';

startBrowser();

const name = 'hostile-operator.v1.0.0-with-a-name-that-is-as-long-as-a-name-may-be-and-that-has-no-place-in-any-table-of-any-page-of-any-console';
const script = 'window.hacked = 1';

let removeCatalog = () => Promise.resolve();

before(async () => {
  removeCatalog = await addCatalog('hostile', packageBlobs('hostile-package', {
    displayName: `<img src=x onerror="${script}"> \u202e rotarepo \u202c`,
    description: `<script>${script}</script>[a](javascript:${script}) <iframe src="https://example.com"></iframe> ${'endless'.repeat(200)}`,
    icon: `<svg xmlns="http://www.w3.org/2000/svg" onload="${script}"><script>${script}</script></svg>`, provider: `<b onclick="${script}">`, keywords: [`<script>${script}</script>`],
  }));
  await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'hostile' } });
  // Nothing owns it, so that it is listed with what its author wrote.
  await apply({
    apiVersion: 'operators.coreos.com/v1alpha1', kind: 'ClusterServiceVersion',
    metadata: { name, namespace: 'hostile', annotations: { 'alm-examples': '{', categories: `<script>${script}</script>` } },
    spec: {
      displayName: `<img src=x onerror="${script}"><script>${script}</script> \u202e rotarepo \u202c מפעיל`,
      description: `<script>${script}</script>[a](javascript:${script})`,
      version: '1.0.0',
      icon: [{ mediatype: 'image/svg+xml', base64data: btoa(`<svg xmlns="http://www.w3.org/2000/svg" onload="${script}"><script>${script}</script></svg>`) }],
      installModes: [{ type: 'AllNamespaces', supported: true }],
      install: { strategy: 'deployment', spec: { deployments: [] } },
    },
  });
});
// Pictures of the documentation are taken by other specs.
after(async () => {
  await kubectl('delete', 'clusterserviceversions', name, '--namespace', 'hostile');
  await removeCatalog();
});

async function expectHarmless(page: Page): Promise<void> {
  assert.equal(await page.evaluate(() => 'hacked' in window), false, 'a script of an author has run');
  assert.equal(await page.locator('img[src="x"], main script, iframe, a[href^="javascript:"]').count(), 0, 'elements of an author');
  expectNoErrors(page);
}

test('what authors write is text, and does not break the page', async () => {
  const page = await signIn('admin', '/installed?namespace=hostile');
  await page.getByText('<img src=x').first().waitFor();
  await expectHarmless(page);
  await expectAccessible(page);
});

test('a package of a hostile catalog is text, in the list, on its page and in the form', async () => {
  const page = await signIn('admin', '/catalog?text=hostile-package', { width: 400 });
  const link = page.getByRole('link', { name: '<img src=x' });
  await link.waitFor();
  await expectHarmless(page);
  await expectFitting(page);

  await link.click();
  await page.getByRole('heading', { level: 1, name: '<img src=x' }).waitFor();
  await expectHarmless(page);
  await expectFitting(page);
  await expectAccessible(page);

  await page.goto(new URL('/install/extension?package=hostile-package', page.url()).href);
  await page.getByRole('button', { name: 'Configuration', exact: true }).click();
  await page.getByText('There is no form, because the bundle could not be read').waitFor();
  await expectHarmless(page);
  await expectFitting(page);
});

test('huge names fit a narrow window', async () => {
  const page = await signIn('admin', '/installed?namespace=hostile', { width: 400 });
  await page.getByText('<img src=x').first().waitFor();
  await expectFitting(page);
});

test('names in addresses are names only', async () => {
  const page = await signIn('admin', `/installed/extensions/${encodeURIComponent('<img src=x onerror=window.hacked=1>')}`);
  await page.getByRole('heading', { level: 1, name: '<img src=x' }).waitFor();
  await page.getByRole('button', { name: 'Try again' }).waitFor();
  await expectHarmless(page);
});
