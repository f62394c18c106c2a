import assert from 'node:assert/strict';
import { after, test } from 'node:test';

import type { Page } from 'playwright-core';

import { expectAccessible, expectNoErrors, expectText, savePicture, signIn, startBrowser } from './browser.ts';
import { apply, kubectl, packageBlobs, pushCatalog } from './site.ts';

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

/** rowOf returns the row of a catalog. */
function rowOf(page: Page, name: string) {
  return page.getByRole('grid', { name: 'Catalogs' }).getByRole('rowgroup').filter({ has: page.getByRole('button', { name: `Edit ${name}` }) });
}

/** choose opens the dialog of an action on a catalog, and confirms it after the changes. */
async function choose(page: Page, action: string, name: string, button: string, change?: () => Promise<void>): Promise<void> {
  await page.getByRole('button', { name: `${action} ${name}` }).click();
  const dialog = page.getByRole('dialog');
  await dialog.waitFor();
  await change?.();
  await expectAccessible(page);
  await dialog.getByRole('button', { name: button, exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
}

test('a ClusterCatalog is added, changed, polled, disabled, enabled and deleted', async () => {
  const image = await pushCatalog('teatime', packageBlobs('pot', { displayName: 'Pot', description: 'A pot.' }));
  const page = await signIn('admin', '/sources');
  const dialog = page.getByRole('dialog');
  const row = rowOf(page, 'teatime');
  await page.getByRole('button', { name: 'Add a catalog' }).click();
  await dialog.getByLabel('Name', { exact: false }).first().fill('teatime');
  await dialog.getByLabel('Image', { exact: false }).first().fill(image);
  await dialog.getByRole('button', { name: 'Add', exact: true }).click();
  await row.getByText('Serving', { exact: true }).waitFor();
  await row.getByText('1 package', { exact: true }).waitFor();

  await choose(page, 'Edit', 'teatime', 'Save', async () => {
    assert.ok(await dialog.getByRole('button', { name: 'Save' }).isDisabled(), 'nothing has changed');
    await dialog.getByLabel('Priority').fill('7');
    await dialog.getByLabel('Look for new content').selectOption('Every 60 minutes');
  });
  await row.getByText('7', { exact: true }).waitFor();
  await row.getByText('60m').waitFor();
  await choose(page, 'Poll now', 'teatime', 'Poll now');
  await choose(page, 'Disable', 'teatime', 'Disable');
  await row.getByText('Disabled', { exact: true }).waitFor();
  await choose(page, 'Enable', 'teatime', 'Enable');
  await row.getByText('Serving', { exact: true }).waitFor();
  assert.equal(await kubectl('get', 'clustercatalog', 'teatime', '-o', 'jsonpath={.spec.availabilityMode} {.spec.priority} {.spec.source.image.pollIntervalMinutes}'), 'Available 7 60');

  await row.getByRole('button', { name: 'Details' }).click();
  await row.getByText('Served image').waitFor();
  await row.getByRole('grid', { name: 'Conditions' }).waitFor();
  await expectAccessible(page);
  await row.getByRole('grid', { name: 'Conditions' }).getByRole('row').last().scrollIntoViewIfNeeded();
  await savePicture(page, 'clustercatalog');

  await choose(page, 'Delete', 'teatime', 'Delete', async () => {
    await dialog.getByText('It may take its updates from this catalog, as from every other.').first().waitFor();
    await dialog.getByRole('textbox').fill('teatime');
  });
  await row.waitFor({ state: 'detached' });
  expectNoErrors(page);
});

test('a CatalogSource is added for a namespace, changed and deleted', async () => {
  const image = await pushCatalog('teatime', packageBlobs('pot', { displayName: 'Pot', description: 'A pot.' }));
  const page = await signIn('admin', '/sources');
  const dialog = page.getByRole('dialog');
  const row = rowOf(page, 'teacups');
  await page.getByRole('button', { name: 'Add a catalog' }).click();
  await dialog.getByLabel('OLM Classic: a CatalogSource').check();
  for (const [label, value] of [['Name', 'teacups'], ['Namespace', 'team-b'], ['Image', image], ['Display name', 'Tea cups'], ['Publisher', 'Kitchen']] as const) {
    await dialog.getByRole('textbox', { name: label, exact: true }).fill(value);
  }
  await dialog.getByRole('button', { name: 'Add', exact: true }).click();
  await row.getByText('Serving', { exact: true }).waitFor();
  await row.getByText('team-b/teacups by Kitchen').waitFor();

  await row.getByRole('link', { name: 'Tea cups' }).click();
  await page.waitForURL(/\/catalog\?catalog=team-b%2Fteacups/);
  await page.goBack();

  await row.getByRole('button', { name: 'Details' }).click();
  await row.getByText('It reports no conditions.').waitFor();
  await expectAccessible(page);
  await row.getByText('It reports no conditions.').scrollIntoViewIfNeeded();
  await savePicture(page, 'catalogsource');

  await choose(page, 'Edit', 'teacups', 'Save', () => dialog.getByLabel('Look for new content').selectOption('Never').then(() => undefined));
  await row.getByText('never').waitFor();
  assert.equal(await kubectl('get', 'catalogsource', 'teacups', '-n', 'team-b', '-o', 'jsonpath={.spec.updateStrategy}'), '');
  await choose(page, 'Delete', 'teacups', 'Delete', () => dialog.getByText('Nothing that is installed depends on it.').waitFor());
  await row.waitFor({ state: 'detached' });
  expectNoErrors(page);
});

test('a default catalog is disabled in the OperatorHub, and another one enabled', async () => {
  await kubectl('apply', '--server-side', '-f', '../config/classic/marketplace/config.openshift.io_operatorhubs.yaml');
  await kubectl('wait', '--for=condition=Established', 'crd/operatorhubs.config.openshift.io');
  await apply({ apiVersion: 'config.openshift.io/v1', kind: 'OperatorHub', metadata: { name: 'cluster' }, spec: { sources: [{ name: 'other', disabled: true }] } });
  const status = { sources: [{ name: 'everyday', disabled: false, status: 'Success' }, { name: 'other', disabled: true, status: 'Success' }] };
  await kubectl('patch', 'operatorhub', 'cluster', '--subresource=status', '--type=merge', '-p', JSON.stringify({ status }));
  await apply({
    apiVersion: 'operators.coreos.com/v1alpha1', kind: 'CatalogSource', metadata: { name: 'everyday', namespace: 'team-b', annotations: { 'operatorframework.io/managed-by': 'marketplace-operator' } },
    spec: { sourceType: 'grpc', address: 'registry.example.com:50051' },
  });

  const page = await signIn('admin', '/sources');
  await page.getByRole('button', { name: 'Enable other' }).waitFor();
  await choose(page, 'Disable', 'everyday', 'Disable', () => page.getByText('the change is written to the OperatorHub').waitFor());
  assert.deepEqual(JSON.parse(await kubectl('get', 'operatorhub', 'cluster', '-o', 'jsonpath={.spec.sources}')), [{ name: 'other', disabled: true }, { name: 'everyday', disabled: true }]);
  await choose(page, 'Enable', 'other', 'Enable');
  assert.deepEqual(JSON.parse(await kubectl('get', 'operatorhub', 'cluster', '-o', 'jsonpath={.spec.sources}')), [{ name: 'other', disabled: false }, { name: 'everyday', disabled: true }]);
  expectNoErrors(page);
});
after(async () => {
  await kubectl('delete', 'crd', 'operatorhubs.config.openshift.io', '--ignore-not-found');
  await kubectl('delete', 'catalogsource', 'everyday', '-n', 'team-b', '--ignore-not-found');
});

test('a user of one namespace may not change catalogs, and is told the permission', async () => {
  const page = await signIn('tenant', '/sources?namespace=team-a');
  const edit = page.getByRole('button', { name: 'Edit samples' });
  await edit.waitFor();
  await page.getByRole('button', { name: 'Add a catalog' }).click();
  await page.getByRole('dialog').getByText('You are not allowed to create clustercatalogs').waitFor();
  await expectAccessible(page);
  expectNoErrors(page);
});

test('the OperatorGroups say what operators manage, and who may do what', async () => {
  const page = await signIn('admin', '/sources?tab=tenants');
  const groups = page.getByRole('grid', { name: 'OperatorGroups' });
  await groups.getByRole('row', { name: /team-a/ }).getByRole('link', { name: 'hello-operator' }).waitFor();
  await page.getByRole('button', { name: 'Who may do what in team-a' }).click();
  const rights = page.getByRole('grid', { name: 'Rights' });
  await rights.getByRole('row', { name: /users\/tenant/ }).getByText('This namespace').waitFor();
  await rights.getByRole('row', { name: /users\/admin/ }).getByText('All namespaces').waitFor();
  await expectAccessible(page);
  await savePicture(page, 'tenants');
  expectNoErrors(page);
});

test('a namespace without OperatorGroups says so', async () => {
  const page = await signIn('admin', '/sources?tab=tenants&namespace=users');
  await expectText(page, /OperatorGroup/);
  await page.getByLabel(/^Reading/).waitFor({ state: 'detached' });
  await expectAccessible(page);
  expectNoErrors(page);
});
