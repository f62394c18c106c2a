import { test } from 'node:test';

import { expectAccessible, expectNoErrors, expectText, savePicture, signIn, startBrowser } from './browser.ts';

startBrowser();

test('a Subscription that waits for approval says so', async () => {
  const page = await signIn('admin', '/installed/subscriptions/team-a/hello-operator');
  await page.getByRole('heading', { level: 1, name: 'hello-operator' }).waitFor();
  await expectText(page, /approv/i);
  await expectAccessible(page);
  await savePicture(page, 'subscription');
  expectNoErrors(page);
});

test('a Subscription without a catalog says which one is missing', async () => {
  const page = await signIn('admin', '/installed/subscriptions/team-b/lost-operator');
  await expectText(page, /none-such/);
});
