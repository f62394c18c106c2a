import { test } from 'node:test';

import { expectAccessible, expectNoErrors, expectText, savePicture, signIn, startBrowser } from './browser.ts';

startBrowser();

test('an extension shows why it is as it is, and its revisions', async () => {
  const page = await signIn('admin', '/installed/extensions/hello-operator');
  await page.getByRole('heading', { level: 1, name: 'hello-operator' }).waitFor();
  await expectText(page, 'hello-operator.v1.0.0');
  await page.getByRole('grid', { name: 'Conditions' }).getByText('Progressing').waitFor();
  await expectAccessible(page);
  await savePicture(page, 'extension');
  expectNoErrors(page);
});

test('an extension that does not exist is said to be missing', async () => {
  const page = await signIn('admin', '/installed/extensions/none-such');
  await expectText(page, 'This could not be read');
  await expectText(page, /none-such.*(not found|does not exist)/);
});
