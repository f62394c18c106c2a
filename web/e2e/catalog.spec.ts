import assert from 'node:assert/strict';
import { test } from 'node:test';

import { expectAccessible, expectFitting, expectNoErrors, expectText, savePicture, signIn, startBrowser } from './browser.ts';
import { addCatalog, packageBlobs } from './site.ts';

startBrowser();

test('a search leads to a package by keyboard, and is part of the address', async () => {
  const page = await signIn('admin', '/catalog', { width: 400 });
  const search = page.getByLabel('Search packages');
  await search.focus();
  await page.keyboard.type('hello');
  await page.waitForURL(/text=hello/);
  await page.getByRole('link', { name: /hello/i }).first().focus();
  await page.keyboard.press('Enter');
  await page.getByRole('tab', { name: 'Versions' }).waitFor();
  await expectFitting(page);
  expectNoErrors(page);
});

test('the address of other consoles leads to the catalog, and keeps its parameters', async () => {
  const page = await signIn('admin', '/operatorhub/all-namespaces?text=hello');
  await page.waitForURL(/\/catalog\?text=hello$/);
  await page.getByRole('link', { name: /hello/i }).first().waitFor();
});

test('a filter shows what is installed, with counts', async () => {
  const page = await signIn('admin', '/catalog');
  const filter = page.getByRole('group', { name: 'Installed', exact: true });
  const installed = filter.getByRole('checkbox', { name: /^Yes/ });
  await filter.getByRole('checkbox', { name: /^No/ }).waitFor();
  await installed.click();
  await page.waitForURL(/installed=Yes/);
  await page.getByRole('list', { name: 'Packages' }).getByRole('link', { name: /hello/i }).first().waitFor();
  await expectText(page, /^\d+ of \d+ packages$/);
  expectNoErrors(page);
});

test('a package that fits no node is shown on request', async () => {
  const remove = await addCatalog('mainframes', packageBlobs('mainframe', {
    displayName: 'Mainframe tools', description: 'For mainframes only.', labels: { 'operatorframework.io/arch.s390x': 'supported', 'operatorframework.io/os.zos': 'supported' },
  }));
  const page = await signIn('admin', '/catalog?text=mainframe');
  await expectText(page, /^1 package is not shown/);
  await expectText(page, 'No package matches');
  await page.getByRole('button', { name: 'Show it' }).click();
  await page.waitForURL(/platform=all/);
  await page.getByRole('link', { name: 'Mainframe tools' }).waitFor();
  await expectText(page, 'Other platform');
  await expectAccessible(page);
  await page.getByRole('link', { name: 'Mainframe tools' }).click();
  await expectText(page, /Its labels name s390x, or no architecture/);
  expectNoErrors(page);
  await remove();
});

test('a search without a result says so, and is cleared', async () => {
  const page = await signIn('admin', '/catalog?text=nothing-has-this-name');
  await expectText(page, 'No package matches');
  await expectAccessible(page);
  await page.getByRole('button', { name: 'Clear all filters' }).click();
  await page.getByRole('list', { name: 'Packages' }).getByRole('link').first().waitFor();
  assert.doesNotMatch(page.url(), /text=/);
  expectNoErrors(page);
});

test('a package shows its versions and the rights that it needs', async () => {
  const page = await signIn('admin', '/catalog/samples/hello-operator');
  await page.getByRole('tab', { name: 'Versions' }).focus();
  await page.keyboard.press('Enter');
  await page.waitForURL(/tab=versions/);
  await expectText(page, '1.0.0');
  await expectAccessible(page);
  await savePicture(page, 'package-graph');
  await page.getByRole('tab', { name: 'Rights' }).click();
  await page.getByLabel(/^Reading/).waitFor({ state: 'detached' });
  await expectText(page, /deployments/);
  await expectAccessible(page);
  expectNoErrors(page);
});

test('a package that no catalog has, and an address without a page, are said to be missing', async () => {
  const page = await signIn('admin', '/catalog/samples/none-such');
  await expectText(page, 'This could not be read');
  await page.getByRole('button', { name: 'Try again' }).waitFor();
  await expectAccessible(page);

  const other = await signIn('admin', '/none-such');
  await expectText(other, 'There is no such page');
  await expectAccessible(other);
  await other.getByRole('button', { name: 'Show what is installed' }).focus();
  await other.keyboard.press('Enter');
  await other.waitForURL(/\/installed/);
});
