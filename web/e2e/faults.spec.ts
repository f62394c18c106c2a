import { after, test } from 'node:test';

import { expectNoErrors, expectText, openWindow, signIn, startBrowser } from './browser.ts';
import { setAPIServer, tokenOf } from './site.ts';

startBrowser();
after(() => setAPIServer('up'));

test('a page says what cannot be read while the API server is away, and goes on by itself', async () => {
  const page = await signIn('admin', '/installed');
  await page.getByRole('link', { name: 'hello-operator' }).first().waitFor();

  await setAPIServer('down');
  await page.reload();
  await expectText(page, 'clusterextensions are missing from this list');
  await setAPIServer('up');
  await page.getByRole('link', { name: 'hello-operator' }).first().waitFor();
  expectNoErrors(page);
});

test('nobody can sign in while the API server is away, and everybody afterwards', async () => {
  const page = await openWindow('/installed');
  await page.getByLabel('Token').fill(tokenOf('admin'));
  await setAPIServer('down');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await expectText(page, 'The API server does not answer');
  await setAPIServer('up');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('link', { name: 'hello-operator' }).first().waitFor();
});

test('a page says that the connection to the console is lost, and goes on by itself', async () => {
  const page = await signIn('admin', '/installed');
  await page.getByRole('link', { name: 'hello-operator' }).first().waitFor();
  await page.context().setOffline(true);
  await expectText(page, 'The connection is lost');
  await page.getByRole('link', { name: 'hello-operator' }).first().waitFor();
  await page.context().setOffline(false);
  await page.getByText('The connection is lost').waitFor({ state: 'detached' });
});
