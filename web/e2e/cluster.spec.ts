import { test } from 'node:test';

import { expectAccessible, expectNoErrors, expectText, signIn, startBrowser } from './browser.ts';

startBrowser();

test('an ordinary Kubernetes cluster says that its version is not managed', async () => {
  const page = await signIn('admin', '/cluster');
  await expectText(page, 'The version of this cluster is not managed');
  await expectAccessible(page);
  expectNoErrors(page);
});

test('the overview leads by keyboard to what needs a person', async () => {
  const page = await signIn('admin', '/');
  const link = page.getByRole('link', { name: /lost-operator/ }).first();
  await link.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'lost-operator' }).waitFor();
  expectNoErrors(page);
});

test('the overview of a namespace without anything says that nothing is needed', async () => {
  const page = await signIn('admin', '/?namespace=users');
  await expectText(page, /No update waits\./);
  await expectAccessible(page);
  expectNoErrors(page);
});
