import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Page } from 'playwright-core';

import { expectAccessible, expectFitting, expectNoErrors, expectText, savePicture, signIn, startBrowser } from './browser.ts';

startBrowser();

// The address of each page.
const pages = [
  { name: 'overview', path: '/' },
  { name: 'catalog', path: '/catalog' },
  { name: 'package', path: '/catalog/samples/hello-operator' },
  { name: 'installed', path: '/installed' },
  { name: 'extension', path: '/installed/extensions/hello-operator' },
  { name: 'subscription', path: '/installed/subscriptions/team-a/hello-operator' },
  { name: 'install-extension', path: '/install/extension?package=hello-operator&catalog=samples' },
  { name: 'install-subscription', path: '/install/subscription?package=hello-operator&catalog=team-a/samples' },
  { name: 'sources', path: '/sources' },
  { name: 'tenants', path: '/sources?tab=tenants' },
  { name: 'cluster', path: '/cluster' },
  { name: 'custom-resources', path: '/operands/extensions/hello-operator' },
  { name: 'custom-resources-of-a-kind', path: '/operands/hello.example.com/v1alpha1/greetings' },
  { name: 'new-custom-resource', path: '/operands/hello.example.com/v1alpha1/greetings/create?namespace=team-a' },
];

// Other specs take the pictures of the other pages, in a state that says more.
const pictured = ['overview', 'catalog', 'package', 'install-extension', 'sources', 'custom-resources'];

/** expectRead waits until a page has read what it shows. */
async function expectRead(page: Page): Promise<void> {
  await page.locator('#main').getByRole('heading').first().waitFor();
  await page.getByLabel(/^Reading/).first().waitFor({ state: 'detached' });
}

for (const { name, path } of pages) {
  test(`the page ${name} is there for an administrator, and is reached by keyboard past the navigation`, async () => {
    const page = await signIn('admin', path);
    await expectRead(page);
    if (pictured.includes(name)) await savePicture(page, name);
    await expectAccessible(page);

    await page.getByRole('link', { name: 'Skip to the content' }).focus();
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    const isEmpty = await page.locator('#main').locator('a, button, input, select').count() === 0;
    assert.ok(isEmpty || await page.evaluate(() => document.querySelector('#main')?.contains(document.activeElement)), 'the focus is in the content');
    expectNoErrors(page);
  });
}

for (const { name, path } of pages) {
  test(`the page ${name} says in a narrow window that it is being read, that this failed, and recovers`, async () => {
    const page = await signIn('admin', '/none-such', { width: 400 });
    let answer: 'nothing' | 'problem' = 'nothing';
    let release = () => { /* Nothing waits yet. */ };
    const released = new Promise<void>((resolve) => { release = resolve; });
    await page.route(/\/api\/v1\/(?!session|namespaces$|events|access)/, async (route) => {
      if (answer === 'nothing') await released;
      await route.fulfill({
        status: 422, contentType: 'application/problem+json',
        body: JSON.stringify({ title: 'Unprocessable Entity', status: 422, detail: 'The tea is cold.', advice: 'Boil some water.' }),
      });
    });
    await page.goto(new URL(path, page.url()).href);
    await page.locator('#main').getByLabel(/^Reading/).first().waitFor();

    answer = 'problem';
    release();
    await expectText(page, 'The tea is cold.');
    await expectText(page, 'Boil some water.');
    await expectFitting(page);
    assert.doesNotMatch(await page.locator('#main').innerText(), /[{}]|undefined|\[object/, 'no data of a program');

    await page.unrouteAll();
    await page.getByRole('button', { name: 'Try again' }).first().click();
    await page.getByText('The tea is cold.').first().waitFor({ state: 'detached' });
    await expectRead(page);
    await expectFitting(page);
    await page.setViewportSize({ width: 1280, height: 900 });
    await page.getByRole('link', { name: 'Overview' }).waitFor();
    await page.setViewportSize({ width: 400, height: 900 });
    await page.getByRole('link', { name: 'Overview' }).waitFor({ state: 'hidden' });
    await expectFitting(page);
    expectNoErrors(page);
  });
}

// A cluster without a ClusterVersion, and the schemas of kinds, have nothing to hide.
for (const { name, path } of pages.filter((page) => !['cluster', 'new-custom-resource'].includes(page.name))) {
  test(`the page ${name} says what a user without rights may not see`, async () => {
    const page = await signIn('nobody', path);
    await expectText(page, /forbidden|may not|not allowed|cannot (list|get)/i);
    await expectAccessible(page);
    expectNoErrors(page);
  });
}

for (const { name, path } of pages.filter((page) => ['overview', 'catalog', 'installed', 'sources'].includes(page.name))) {
  test(`the page ${name} shows a user of one namespace a part, and what is missing`, async () => {
    const page = await signIn('tenant', `${path}?namespace=team-a`);
    await expectRead(page);
    await expectText(page, /^You are not allowed|are missing from this list|shows nothing about/);
    await page.locator('#main').getByText(/hello-operator|Hello Operator|samples|team-a/).first().waitFor();
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
