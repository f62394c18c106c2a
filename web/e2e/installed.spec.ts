import assert from 'node:assert/strict';
import { test } from 'node:test';

import { expectAccessible, expectFitting, expectNoErrors, expectText, savePicture, signIn, startBrowser } from './browser.ts';
import { apply, kubectl } from './site.ts';

startBrowser();

test('the list shows both kinds, with states and the sentences behind them', async () => {
  const page = await signIn('admin', '/installed');
  const table = page.getByRole('grid', { name: 'Installed extensions and operators' });
  await table.waitFor();
  assert.equal(await table.getByRole('link', { name: 'hello-operator' }).count(), 2, 'a ClusterExtension and a Subscription');
  await table.getByRole('row', { name: /lost-operator/ }).getByText(/none-such/).first().waitFor();
  await expectAccessible(page);
  await savePicture(page, 'installed');
  expectNoErrors(page);
});

test('an operator without a Subscription says so, and is deleted on its page', async () => {
  const name = 'orphan.v1.0.0';
  await apply({
    apiVersion: 'operators.coreos.com/v1alpha1', kind: 'ClusterServiceVersion', metadata: { name, namespace: 'users' },
    spec: { displayName: 'Orphan', version: '1.0.0', installModes: [{ type: 'AllNamespaces', supported: true }], install: { strategy: 'deployment', spec: { deployments: [] } } },
  });
  const page = await signIn('admin', '/installed?namespace=users');
  const row = page.getByRole('row', { name: /orphan/ });
  await row.getByRole('link', { name: 'Custom resources' }).waitFor();
  await row.getByRole('link', { name }).click();
  await page.getByRole('heading', { level: 1, name }).waitFor();
  await page.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('dialog').getByRole('textbox').fill(name);
  await page.keyboard.press('Enter');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await kubectl('wait', '--for=delete', `clusterserviceversion/${name}`, '-n', 'users', '--timeout=60s');
  expectNoErrors(page);
});

test('filters and order are part of the address', async () => {
  const page = await signIn('admin', '/installed');
  await page.getByLabel('Filter by name, package or message').fill('lost');
  await page.getByRole('link', { name: 'hello-operator' }).first().waitFor({ state: 'detached' });
  assert.match(page.url(), /text=lost/);
  await page.reload();
  await page.getByRole('link', { name: 'lost-operator' }).waitFor();
  assert.equal(await page.getByRole('link', { name: 'hello-operator' }).count(), 0);

  await page.getByLabel('Filter by name, package or message').fill('nothing has this name');
  await expectText(page, 'Nothing matches the filter');
  await page.getByRole('button', { name: 'Clear the filter' }).click();
  await page.getByRole('link', { name: 'hello-operator' }).first().waitFor();
  await page.getByRole('button', { name: 'Name', exact: true }).click();
  await page.waitForURL(/order=desc/);
});

test('a link leads to the extension by keyboard, and the page fits a narrow window', async () => {
  const page = await signIn('admin', '/installed', { width: 400 });
  const link = page.getByRole('link', { name: 'hello-operator' }).first();
  await link.waitFor();
  await expectFitting(page);
  await link.focus();
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { level: 1, name: 'hello-operator' }).waitFor();
  await expectFitting(page);
});
