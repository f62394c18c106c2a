import assert from 'node:assert/strict';
import { test } from 'node:test';

import { expectAccessible, expectNoErrors, expectText, signIn, startBrowser } from './browser.ts';

startBrowser();

test('the form for a catalog asks for what is missing, by keyboard', async () => {
  const page = await signIn('admin', '/sources');
  await page.getByRole('button', { name: 'Add a catalog' }).focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  const add = dialog.getByRole('button', { name: 'Add', exact: true });
  assert.ok(await add.isDisabled());
  await dialog.getByLabel('Name', { exact: false }).first().fill('other');
  await dialog.getByLabel('Image', { exact: false }).first().fill('registry.example.com/other:v1');
  assert.ok(await add.isEnabled());
  await expectAccessible(page);

  await dialog.getByLabel('OLM Classic: a CatalogSource').check();
  assert.ok(await add.isDisabled(), 'a CatalogSource needs a namespace');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  expectNoErrors(page);
});

test('the deletion of a catalog names what is installed from it', async () => {
  const page = await signIn('admin', '/sources');
  await page.getByRole('button', { name: 'Delete samples' }).first().click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('hello-operator').first().waitFor();
  assert.ok(await dialog.getByRole('button', { name: 'Delete', exact: true }).isDisabled(), 'the name has to be typed');
  await expectAccessible(page);
  expectNoErrors(page);
});

test('a namespace without OperatorGroups says so', async () => {
  const page = await signIn('admin', '/sources?tab=tenants&namespace=users');
  await expectText(page, /OperatorGroup/);
  await page.getByLabel(/^Reading/).waitFor({ state: 'detached' });
  await expectAccessible(page);
  expectNoErrors(page);
});
