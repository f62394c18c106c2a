import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Page } from 'playwright-core';

import { expectAccessible, expectNoErrors, expectText, savePicture, signIn, startBrowser } from './browser.ts';
import { kubectl } from './site.ts';

startBrowser();

const extension = '/installed/extensions/hello-operator';
const subscription = '/installed/subscriptions/team-a/hello-operator';

/** expectDialog waits until a dialog shows a text, and checks and pictures it. */
async function expectDialog(page: Page, text: string | RegExp, name: string): Promise<void> {
  const dialog = page.getByRole('dialog');
  await dialog.getByText(text).first().waitFor();
  await dialog.getByLabel(/^Reading/).waitFor({ state: 'detached' });
  await savePicture(page, name);
  await expectAccessible(page);
  expectNoErrors(page);
}

test('the approval shows what an InstallPlan does, and can be cancelled', async () => {
  const page = await signIn('admin', subscription);
  await page.getByRole('button', { name: 'Review and approve' }).click();
  await expectDialog(page, 'greetings.hello.example.com', 'approve');
  await page.getByRole('dialog').getByText(/Rights that are granted/).waitFor();
  const steps = page.getByRole('grid', { name: 'Objects of the plan' });
  const step = steps.getByRole('row', { name: /ServiceAccount/ });
  await step.getByText('New').waitFor();
  await step.getByText('v1', { exact: true }).waitFor();
  await step.getByRole('button').click();
  await steps.getByText(/^apiVersion: v1\n/).waitFor();
  await steps.getByRole('row', { name: /CustomResourceDefinition greetings/ }).getByText('Exists, unchanged').waitFor();
  await expectAccessible(page);
  assert.match(page.url(), /action=approve/);

  await page.getByRole('button', { name: 'Do not approve' }).click();
  await page.getByRole('dialog').getByText('holds back the other installations').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.equal((await kubectl('get', 'installplans', '-n', 'team-a', '-o', 'jsonpath={.items[*].spec.approved}')).includes('true'), false);
});

test('the removal of an operator says what goes and what stays', async () => {
  const page = await signIn('admin', `${subscription}?action=uninstall`);
  await expectDialog(page, /These are removed/, 'uninstall-subscription');
});

test('the channel and the approval are changed in a dialog, whose button works after a change', async () => {
  const page = await signIn('admin', `${subscription}?action=change`);
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('radio').first().waitFor();
  assert.ok(await dialog.getByRole('button', { name: 'Change', exact: true }).isDisabled());
  await expectAccessible(page);
});

test('the configuration of an operator is changed by form, and removed as YAML', async () => {
  const readConfig = () => kubectl('get', 'subscription', 'hello-operator', '-n', 'team-a', '-o', 'jsonpath={.spec.config}');
  const page = await signIn('admin', subscription);
  await page.getByRole('button', { name: 'Change configuration' }).focus();
  await page.keyboard.press('Enter');
  const dialog = page.getByRole('dialog');
  const change = dialog.getByRole('button', { name: 'Change', exact: true });
  assert.ok(await change.isDisabled(), 'nothing has changed');
  await dialog.getByRole('button', { name: 'env', exact: true }).click();
  await dialog.getByRole('button', { name: /^Add/ }).first().click();
  await dialog.getByRole('textbox', { name: /^name/ }).fill('HTTPS_PROXY');
  await dialog.getByRole('textbox', { name: 'value', exact: true }).fill('proxy.example.com');
  await expectAccessible(page);
  await savePicture(page, 'operator-configuration');
  await change.click();
  await dialog.waitFor({ state: 'detached' });
  assert.equal(await readConfig(), '{"env":[{"name":"HTTPS_PROXY","value":"proxy.example.com"}]}');

  await page.getByRole('button', { name: 'Change configuration' }).click();
  await dialog.getByRole('button', { name: 'YAML', exact: true }).click();
  const editor = dialog.locator('.cm-content');
  await editor.getByText('HTTPS_PROXY').waitFor();
  await editor.press('ControlOrMeta+a');
  await page.keyboard.press('Delete');
  await change.click();
  await dialog.waitFor({ state: 'detached' });
  assert.equal(await readConfig(), '');
  expectNoErrors(page);
});

test('a Subscription is edited as YAML, and leads back to its page', async () => {
  const page = await signIn('admin', `${subscription}?tab=yaml`);
  await page.getByRole('link', { name: 'Edit', exact: true }).click();
  await page.getByRole('button', { name: 'YAML', exact: true }).click();
  await page.locator('.cm-content').getByText('startingCSV', { exact: true }).waitFor();
  await expectText(page, 'Nothing is changed yet.');
  await expectAccessible(page);
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.waitForURL(/\/installed\/subscriptions\/team-a\/hello-operator\?tab=yaml/);

  const reader = await signIn('nobody', '/operands/operators.coreos.com/v1alpha1/subscriptions/objects/hello-operator/edit?namespace=team-a');
  await expectText(reader, 'You are not allowed to see this');
  expectNoErrors(page);
});

test('an update of an extension needs its plan', async () => {
  const page = await signIn('admin', `${extension}?action=change`);
  const dialog = page.getByRole('dialog');
  assert.ok(await dialog.getByRole('button', { name: 'Change', exact: true }).isDisabled());
  await dialog.getByRole('textbox').first().fill('1.1.0');
  await dialog.getByRole('button', { name: 'Show the plan' }).click();
  await expectDialog(page, 'What would change', 'upgrade');
});

test('the removal of an extension needs its name if data is lost', async () => {
  const page = await signIn('admin', `${extension}?action=uninstall`);
  await expectDialog(page, /CRDs that are/, 'uninstall-extension');
});
