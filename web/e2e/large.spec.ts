import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { expectAccessible, expectNoErrors, expectText, signIn, startBrowser } from './browser.ts';
import { addCatalog, packageBlobs } from './site.ts';

startBrowser();

const count = 5000;
let remove = () => Promise.resolve();

before(async () => {
  const blobs = Array.from({ length: count }, (_, index) => packageBlobs(`package-${index}`, {
    displayName: `Package number ${index}`, description: `The package ${index} of a large catalog. ${'It does a lot. '.repeat(20)}`, provider: `Provider ${index % 40}`, keywords: [`word${index}`],
  }));
  remove = await addCatalog('large', blobs.flat());
});
after(() => remove());

test('a catalog with 5,000 packages is found, searched and scrolled', async (t) => {
  const page = await signIn('admin', '/installed');
  // The first reader of a catalog waits until the console has read it.
  await page.goto(new URL('/catalog', page.url()).href);
  await expectText(page, /\d{4} packages/);

  await page.reload();
  const search = page.getByLabel('Search packages');
  await search.fill('word4321');
  await page.getByRole('link', { name: 'Package number 4321' }).waitFor();
  const interactive = await page.evaluate(() => Math.round(performance.now()));
  const session = await page.context().newCDPSession(page);
  await session.send('Performance.enable');
  const { metrics } = await session.send('Performance.getMetrics');
  const heap = metrics.find(({ name }) => name === 'JSHeapUsedSize')?.value ?? 0;
  t.diagnostic(`time to the first result of a search: ${interactive} ms; JavaScript heap: ${(heap / 1e6).toFixed(1)} MB`);

  await search.fill('');
  await expectText(page, /\d{4} packages/);
  const tiles = page.getByRole('listitem').filter({ has: page.getByRole('heading') });
  assert.ok(await tiles.count() < 200, 'only the tiles that can be seen are in the page');
  const first = await tiles.first().innerText();
  await tiles.first().hover();
  await page.mouse.wheel(0, 20_000);
  await page.waitForFunction((text) => document.querySelector('[role="listitem"]')?.textContent !== text, first);
  await tiles.first().waitFor();
  await expectAccessible(page);
  expectNoErrors(page);
});
