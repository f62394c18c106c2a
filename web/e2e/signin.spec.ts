import assert from 'node:assert/strict';
import { test } from 'node:test';

import { expectAccessible, expectNoErrors, expectText, openWindow, savePicture, signIn, startBrowser } from './browser.ts';
import { kubectl } from './site.ts';

startBrowser();

test('a wrong token is refused with advice', async () => {
  const page = await openWindow('/');
  await page.getByLabel('Token').waitFor();
  await expectAccessible(page);
  await savePicture(page, 'signin');
  await page.getByLabel('Token').fill('nonsense');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expectText(page, 'Check that the token is complete');
  expectNoErrors(page);
});

test('a token signs in at the address that was opened, and scripts do not see it', async () => {
  const page = await signIn('admin', '/installed?text=hello');
  await page.getByRole('link', { name: 'hello-operator' }).first().waitFor();
  assert.equal(new URL(page.url()).search, '?text=hello');
  const [session] = await page.context().cookies();
  assert.deepEqual([session?.name, session?.httpOnly, session?.secure, session?.sameSite], ['__Host-mainstay-session', true, true, 'Strict']);
  const seen = await page.evaluate(() => JSON.stringify([document.cookie, Object.entries(localStorage), Object.entries(sessionStorage)]));
  assert.ok(!seen.includes('eyJ'), `scripts see ${seen}`);
});

test('signing out ends the session in every window', async () => {
  const page = await signIn('admin', '/installed');
  const other = await page.context().newPage();
  await other.goto(page.url());
  await other.getByRole('button', { name: 'Sign out' }).waitFor();
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByLabel('Token').waitFor();
  await other.getByLabel('Token').waitFor();
});

test('a token that is no longer valid leads to the sign-in', async () => {
  const page = await signIn('leaver', '/installed');
  await kubectl('delete', 'serviceaccount', 'leaver', '-n', 'users');
  // The API server remembers for some seconds that a token is valid.
  while (!(await page.getByLabel('Token').isVisible())) {
    await page.reload();
    await page.getByRole('button', { name: /Sign (in|out)/ }).waitFor();
  }
});
