import { test } from 'node:test';

import { expectAccessible, expectFitting, expectNoErrors, expectText, savePicture, signIn, startBrowser } from './browser.ts';

startBrowser();

// The address of each page that has no specs of its own.
const pages = [
  { name: 'overview', path: '/' },
  { name: 'catalog', path: '/catalog' },
  { name: 'package', path: '/catalog/samples/hello-operator' },
  { name: 'install-extension', path: '/install/extension?package=hello-operator&catalog=samples' },
  { name: 'sources', path: '/sources' },
  { name: 'cluster-not-managed', path: '/cluster' },
  { name: 'custom-resources', path: '/operands/extensions/hello-operator' },
];

for (const { name, path } of pages) {
  test(`the page ${name} is there for an administrator`, async () => {
    const page = await signIn('admin', path);
    await page.locator('#main').getByRole('heading').first().waitFor();
    await page.getByLabel(/^Reading/).waitFor({ state: 'detached' });
    if (path !== '/cluster') await savePicture(page, name);
    await expectAccessible(page);
    expectNoErrors(page);
  });
}

for (const { name, path } of pages) {
  test(`the page ${name} fits a narrow window, also after resizing`, async () => {
    const page = await signIn('admin', path, { width: 400 });
    await page.locator('#main').getByRole('heading').first().waitFor();
    await page.getByLabel(/^Reading/).waitFor({ state: 'detached' });
    await expectFitting(page);
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.getByRole('link', { name: 'Overview' }).waitFor();
    await page.setViewportSize({ width: 400, height: 900 });
    await page.getByRole('link', { name: 'Overview' }).waitFor({ state: 'hidden' });
    await expectFitting(page);
  });
}

for (const { name, path } of pages.filter(({ path }) => path !== '/cluster')) {
  test(`the page ${name} says what a user without rights may not see`, async () => {
    const page = await signIn('nobody', path);
    await expectText(page, /forbidden|may not|not allowed|cannot (list|get)/i);
    await expectAccessible(page);
    expectNoErrors(page);
  });
}

test('pictures of the documentation show the dark theme, a narrow window, and what a user may not see', async () => {
  const dark = await signIn('admin', '/', { colorScheme: 'dark' });
  await expectText(dark, 'lost-operator');
  await savePicture(dark, 'dark');

  const narrow = await signIn('admin', '/installed', { width: 400 });
  await narrow.getByRole('link', { name: 'lost-operator' }).waitFor();
  await savePicture(narrow, 'narrow');

  const forbidden = await signIn('nobody', '/installed');
  await expectText(forbidden, 'clusterextensions are missing from this list');
  await savePicture(forbidden, 'forbidden');

  const empty = await signIn('admin', '/catalog?text=nothing-has-this-name');
  await expectText(empty, 'No package matches');
  await savePicture(empty, 'empty');

  const missing = await signIn('admin', '/catalog/samples/none-such');
  await expectText(missing, 'This could not be read');
  await savePicture(missing, 'error');
});
