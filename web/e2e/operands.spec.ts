import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import { expectAccessible, expectNoErrors, expectText, savePicture, signIn, startBrowser } from './browser.ts';
import { kubectl } from './site.ts';

startBrowser();

const list = '/operands/hello.example.com/v1alpha1/greetings';
const place = '?namespace=team-a';
after(() => kubectl('delete', 'greetings.hello.example.com', '--all', '--namespace', 'team-a'));

test('a kind without objects says so', async () => {
  const page = await signIn('admin', `${list}?namespace=team-b`);
  await expectText(page, 'There is none in namespace team-b.');
  await expectAccessible(page);
  expectNoErrors(page);
});

test('a custom resource is created by form, edited as YAML and deleted after its name was typed', async () => {
  const page = await signIn('admin', `${list}/create${place}`);
  const names = page.getByRole('textbox', { name: /^name/i });
  await names.first().fill('first');
  await page.getByRole('button', { name: 'Check' }).click();
  await expectText(page, /The API server refuses/);
  await expectAccessible(page);
  await savePicture(page, 'create-custom-resource');

  await names.last().fill('Ada');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByRole('heading', { level: 1, name: 'first' }).waitFor();
  assert.equal(await kubectl('get', 'greeting', 'first', '-n', 'team-a', '-o', 'jsonpath={.spec.name}'), 'Ada');
  await expectAccessible(page);

  await page.getByRole('link', { name: 'Edit' }).click();
  await page.getByRole('button', { name: 'YAML', exact: true }).click();
  await page.locator('.cm-content').getByText('Ada', { exact: true }).waitFor();
  await expectText(page, 'Nothing is changed yet.');
  await expectAccessible(page);
  await page.getByRole('button', { name: 'Cancel' }).click();

  await page.getByRole('button', { name: 'Delete' }).click();
  const dialog = page.getByRole('dialog');
  assert.ok(await dialog.getByRole('button', { name: 'Delete' }).isDisabled());
  await dialog.getByRole('textbox').fill('first');
  await page.keyboard.press('Enter');
  await expectText(page, 'There is none in namespace team-a.');
  expectNoErrors(page);
});

test('an object that does not exist, and a kind that is not served, are said to be missing', async () => {
  const page = await signIn('admin', `${list}/objects/none-such${place}`);
  await expectText(page, 'This could not be read');
  await page.getByRole('button', { name: 'Try again' }).waitFor();
  await expectAccessible(page);

  const other = await signIn('admin', '/operands/none.example.com/v1/nothings');
  await expectText(other, 'This could not be read');
  await expectAccessible(other);
});

test('the form of a custom resource works with the keyboard only', async () => {
  const page = await signIn('admin', `${list}/create${place}`);
  const names = page.getByRole('textbox', { name: /^name/i });
  await names.first().focus();
  await page.keyboard.type('second');
  await names.last().focus();
  await page.keyboard.type('Grace');
  await page.getByRole('button', { name: 'Create', exact: true }).focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'second' }).waitFor();
  expectNoErrors(page);
});
