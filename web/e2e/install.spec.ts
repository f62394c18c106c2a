import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Page } from 'playwright-core';

import { expectAccessible, expectNoErrors, expectText, savePicture, signIn, startBrowser } from './browser.ts';
import { kubectl } from './site.ts';

startBrowser();

const form = '/install/extension?package=hello-operator&catalog=samples';
const dialog = '/installed/extensions/hello-operator?action=configure';

/** openConfiguration opens the form for the configuration, which is read from the bundle. */
async function openConfiguration(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Configuration', exact: true }).click();
  await expectText(page, 'These are the fields of hello-operator.v1.1.0.');
}

/** fieldOf returns the group of a field, with its faults. */
function fieldOf(page: Page, name: string) {
  return page.locator('.pf-v6-c-form__group').filter({ has: page.getByRole('textbox', { name: new RegExp(`^${name}`) }) }).last();
}

test('the configuration is a form, whose faults are at their fields, and the same as YAML', async () => {
  const page = await signIn('admin', form);
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('second-hello');
  await openConfiguration(page);
  const field = fieldOf(page, 'watchNamespace');
  await field.getByRole('textbox').fill('Not A Namespace');
  await page.getByRole('button', { name: 'Review' }).click();
  await field.getByText(/must match pattern/).waitFor();
  await expectAccessible(page);
  await savePicture(page, 'configuration');
  assert.ok(await page.getByRole('button', { name: 'Install', exact: true }).isDisabled());

  await field.getByRole('textbox').fill('teas');
  await field.getByText(/must match pattern/).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Review' }).click();
  await page.getByRole('button', { name: /^Objects that are created/ }).click();
  await page.getByRole('button', { name: 'ClusterExtension second-hello' }).click();
  await expectText(page, /watchNamespace: teas/);

  await page.getByRole('button', { name: 'YAML', exact: true }).click();
  await page.locator('.cm-content').getByText('watchNamespace: teas').waitFor();
  await expectAccessible(page);
  expectNoErrors(page);
});

test('the form and the YAML show the same extension, and a label of the YAML stays', async () => {
  const page = await signIn('admin', form);
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('second-hello');
  await page.getByRole('button', { name: 'YAML view' }).click();
  const editor = page.locator('.cm-content');
  await editor.getByText('name: second-hello').first().waitFor();
  await expectAccessible(page);
  await editor.press('ControlOrMeta+a');
  await page.keyboard.type(JSON.stringify({
    apiVersion: 'olm.operatorframework.io/v1', kind: 'ClusterExtension', metadata: { name: 'second-hello', labels: { team: 'teas' } },
    spec: { namespace: 'hello', source: { sourceType: 'Catalog', catalog: { packageName: 'hello-operator' } } },
  }));
  await page.getByRole('button', { name: 'Form view' }).click();
  assert.equal(await page.getByRole('textbox', { name: 'Name', exact: true }).inputValue(), 'second-hello');
  assert.ok(await page.getByRole('radio', { name: 'Use the one of operator-controller' }).isChecked(), 'the YAML names no service account');
  await page.getByRole('textbox', { name: 'Name', exact: true }).fill('third-hello');

  await page.getByRole('button', { name: 'Review' }).click();
  await page.getByRole('button', { name: /^Objects that are created/ }).click();
  await page.getByRole('button', { name: 'ClusterExtension third-hello' }).click();
  await expectText(page, /team: teas/);
  expectNoErrors(page);
});

test('a service account of the namespace is suggested, and one with the default name is used', async () => {
  await kubectl('create', 'namespace', 'teahouse');
  await kubectl('create', 'serviceaccount', 'hello-operator-installer', '-n', 'teahouse');
  const page = await signIn('admin', form);
  const account = page.getByLabel('Name of the service account');
  await page.getByRole('radio', { name: 'Create one with the least rights' }).waitFor();
  assert.equal(await account.count(), 0);

  const namespace = page.locator('#main').getByRole('textbox', { name: /^Namespace/ });
  await namespace.fill('teahouse');
  await namespace.blur();
  await account.waitFor();
  assert.equal(await account.inputValue(), 'hello-operator-installer');
  assert.ok(await page.getByRole('radio', { name: 'Use an existing one' }).isChecked());
  await expectText(page, 'It exists in the namespace.');
  await expectAccessible(page);
  expectNoErrors(page);
  await kubectl('delete', 'namespace', 'teahouse', '--wait=false');
});

test('the form works with the keyboard only', async () => {
  const page = await signIn('admin', form);
  const toggle = page.getByRole('button', { name: 'Configuration', exact: true });
  await toggle.focus();
  await page.keyboard.press('Enter');
  await expectText(page, 'These are the fields of hello-operator.v1.1.0.');
  await page.getByRole('button', { name: 'YAML', exact: true }).focus();
  await page.keyboard.press('Enter');
  const editor = page.locator('.cm-content');
  await editor.focus();
  await page.keyboard.type('watchNamespace: teas');
  await page.keyboard.press('Escape');
  await page.keyboard.press('Tab');
  assert.equal(await editor.evaluate((element) => element.contains(document.activeElement)), false, 'the focus has left the editor');

  await page.getByRole('button', { name: 'Form', exact: true }).focus();
  await page.keyboard.press('Enter');
  assert.equal(await fieldOf(page, 'watchNamespace').getByRole('textbox').inputValue(), 'teas');
  expectNoErrors(page);
});

test('the form says what is missing, and what cannot be installed', async () => {
  const page = await signIn('admin', '/install/extension');
  await expectText(page, 'No package is chosen');
  await expectAccessible(page);

  const other = await signIn('admin', '/install/extension?package=none-such');
  await expectText(other, 'This could not be read');
  await expectText(other, /none-such.*no served catalog contains it/i);
  await expectAccessible(other);
});

test('a bundle that cannot be read leaves YAML, with the reason', async () => {
  const page = await signIn('admin', `${form}&version=9.9.9`);
  await page.getByRole('button', { name: 'Configuration', exact: true }).click();
  await expectText(page, 'There is no form, because the bundle could not be read');
  await page.locator('.cm-content').waitFor();
  assert.ok(await page.getByRole('button', { name: 'Form', exact: true }).isDisabled());
  await expectAccessible(page);
  expectNoErrors(page);
});

test('the configuration of an installed extension needs a change, and its plan', async () => {
  const page = await signIn('admin', dialog);
  const change = page.getByRole('dialog').getByRole('button', { name: 'Change', exact: true });
  await expectText(page, 'These are the fields of hello-operator.v1.0.0.');
  assert.ok(await change.isDisabled());
  await fieldOf(page, 'watchNamespace').getByRole('textbox').fill('hello');
  await page.getByRole('button', { name: 'Show the plan' }).click();
  await expectText(page, 'What would change');
  await expectAccessible(page);
  await savePicture(page, 'change-configuration');
  expectNoErrors(page);
});

test('the form of an operator of OLM Classic says what is missing, and what no catalog offers', async () => {
  const page = await signIn('admin', '/install/subscription');
  await expectText(page, 'No package is chosen');
  await expectAccessible(page);

  const other = await signIn('admin', '/install/subscription?package=none-such');
  await expectText(other, 'This could not be read');
  await expectAccessible(other);
  await other.getByRole('link', { name: 'Show the packages that exist' }).click();
  await other.waitForURL(/\/catalog$/);
});
