import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { Page } from 'playwright-core';

import { expectAccessible, expectNoErrors, savePicture, signIn, startBrowser } from './browser.ts';
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

test('the approval shows what an InstallPlan does, and can be given up', async () => {
  const page = await signIn('admin', subscription);
  await page.getByRole('button', { name: 'Review and approve' }).click();
  await expectDialog(page, 'greetings.hello.example.com', 'approve');
  await page.getByRole('dialog').getByText(/Rights that are granted/).waitFor();
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
