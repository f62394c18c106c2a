import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Page } from 'playwright-core';

import { expectAccessible, expectFitting, expectNoErrors, signIn, startBrowser } from './browser.ts';

startBrowser();

async function expectHarmless(page: Page): Promise<void> {
  assert.equal(await page.evaluate(() => 'hacked' in window), false, 'a script of an author has run');
  assert.equal(await page.locator('img[src="x"], main script, a[href^="javascript:"]').count(), 0, 'elements of an author');
  expectNoErrors(page);
}

test('what authors write is text, and does not break the page', async () => {
  const page = await signIn('admin', '/installed?namespace=hostile');
  await page.getByText('<img src=x').first().waitFor();
  await expectHarmless(page);
  await expectAccessible(page);
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
