import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import type { Page } from 'playwright-core';

import { expectAccessible, expectFitting, expectNoErrors, expectText, savePicture, signIn, startBrowser } from './browser.ts';
import { addKettles } from './kettle.ts';
import { kubectl } from './site.ts';

startBrowser();

let removeKettles: () => Promise<void>;
before(async () => {
  removeKettles = await addKettles({
    'operatorframework.io/initialization-resource': JSON.stringify({ apiVersion: 'kitchen.example.com/v1', kind: 'Kettle', metadata: { name: 'first-kettle' }, spec: { liters: 2 } }),
  });
});
after(async () => { await removeKettles(); });

const form = '/install/subscription?package=kettle&catalog=olm/kitchen';
const page = '/installed/subscriptions/kitchen/kettle';

/** approve approves the InstallPlan that waits, after a look at it. */
async function approve(window: Page, operator: string): Promise<void> {
  await window.getByRole('button', { name: 'Review and approve' }).click();
  const dialog = window.getByRole('dialog');
  await dialog.getByText(new RegExp(`installs ${operator}`)).waitFor();
  await dialog.getByRole('button', { name: 'Approve', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
}

test('a package of OLM Classic leads to its installation', async () => {
  const window = await signIn('admin', '/catalog?text=kettle');
  await window.getByRole('link', { name: 'Kettle' }).click();
  await window.getByRole('heading', { level: 1, name: 'Kettle' }).waitFor();
  await window.getByRole('link', { name: 'Install', exact: true }).click();
  await window.getByRole('heading', { level: 1, name: 'Install Kettle' }).waitFor();
  assert.match(window.url(), /catalog=olm(%2F|\/)kitchen/);
  expectNoErrors(window);
});

test('an older version needs manual approval, and a mode that the operator lacks cannot be chosen', async () => {
  const window = await signIn('admin', form);
  const automatic = window.getByRole('radio', { name: 'Automatic' });
  assert.ok(await automatic.isChecked());
  assert.ok(await window.getByRole('radio', { name: 'Watch all namespaces' }).isDisabled());
  await expectText(window, 'The operator does not support this.');

  await window.getByLabel('Version').selectOption('1.0.0');
  assert.ok(await automatic.isDisabled());
  assert.ok(await window.getByRole('radio', { name: 'Manual' }).isChecked());
  await expectText(window, 'kettle.v1.0.0 is not the newest version of the channel.');
  await window.getByLabel('Channel').selectOption('old');
  await expectText(window, 'This channel is deprecated: Use channel stable.');
  assert.ok(await automatic.isEnabled(), 'the version is the newest of the other channel');
  await expectAccessible(window);
  expectNoErrors(window);
});

test('a namespace that does not see the package is refused, and the form stays', async () => {
  const window = await signIn('admin', '/install/subscription?package=hello-operator&catalog=team-a/samples');
  const namespace = window.locator('#main').getByRole('textbox', { name: /^Namespace/ });
  await expectText(window, 'The package is installed in this namespace already');
  assert.equal(await namespace.inputValue(), 'team-a', 'no other namespace sees the catalog');
  assert.ok(await window.getByRole('button', { name: 'Review' }).isDisabled());

  await namespace.fill('team-b');
  await namespace.blur();
  await expectText(window, 'The package cannot be installed in namespace team-b');
  await expectText(window, /no catalog that namespace team-b sees contains it/i);
  await expectAccessible(window);
  assert.equal(await namespace.inputValue(), 'team-b');
  assert.ok(await window.getByRole('button', { name: 'Review' }).isDisabled());
  expectNoErrors(window);
});

test('another namespace than the recommended one is chosen with a warning', async () => {
  const window = await signIn('admin', `${form}&namespace=users`);
  await expectText(window, 'The author recommends namespace kitchen.');
  await expectText(window, 'The namespace exists. Operators in it are resolved and upgraded together.');
  await window.getByRole('radio', { name: 'Manual' }).check();
  await expectText(window, 'Each installation and upgrade waits for an approval.');
  await window.getByRole('button', { name: 'Use kitchen' }).click();
  await expectText(window, 'The namespace does not exist yet.');
  expectNoErrors(window);
});

test('a configuration is checked before the installation', async () => {
  const window = await signIn('admin', form);
  await window.getByRole('button', { name: 'Configuration', exact: true }).click();
  await window.getByRole('button', { name: 'nodeSelector', exact: true }).waitFor();
  await expectAccessible(window);
  await window.getByRole('button', { name: 'YAML', exact: true }).click();
  const editor = window.locator('.cm-content');
  await editor.click();
  await window.keyboard.type('nodeSelectors: {disk: fast}');
  await window.getByRole('button', { name: 'Review' }).click();
  await expectText(window, 'Nothing was installed');
  await expectText(window, /unknown field "nodeSelectors"/);
  await expectAccessible(window);

  await editor.press('ControlOrMeta+a');
  await window.keyboard.type('nodeSelector: {disk: fast}');
  await window.getByRole('button', { name: 'Review' }).click();
  await window.getByRole('button', { name: /^Objects that are created/ }).click();
  await window.getByRole('button', { name: 'Subscription kitchen/kettle' }).click();
  await expectText(window, /disk: fast/);
  expectNoErrors(window);
});

test('the form and the YAML show the same Subscription, and no field is lost', async () => {
  const window = await signIn('admin', form);
  await window.getByLabel('Version').selectOption('1.0.0');
  await window.getByRole('button', { name: 'YAML view' }).click();
  const editor = window.locator('.cm-content');
  await editor.getByText('startingCSV: kettle.v1.0.0').waitFor();
  await editor.getByText('installPlanApproval: Manual').waitFor();
  await expectAccessible(window);

  /** write replaces the YAML. */
  const write = async (text: string) => {
    await editor.press('ControlOrMeta+a');
    await window.keyboard.insertText(text);
  };
  const subscription = {
    apiVersion: 'operators.coreos.com/v1alpha1', kind: 'Subscription', metadata: { name: 'pot', namespace: 'kitchen', labels: { team: 'teas' } },
    spec: {
      name: 'kettle', source: 'kitchen', sourceNamespace: 'olm', channel: 'stable', startingCSV: 'kettle.v1.1.0', installPlanApproval: 'Automatic', config: { nodeSelector: { disk: 'fast' } },
    },
  };
  const review = window.getByRole('button', { name: 'Review' });
  await write('kind: Subscription: x');
  await expectText(window, /The YAML is not valid\. Line 1/);
  assert.ok(await review.isDisabled());
  assert.ok(await window.getByRole('button', { name: 'Form view' }).isDisabled(), 'the text would be lost');
  await editor.getByText('kind: Subscription: x').waitFor();
  await write(JSON.stringify({ ...subscription, kind: 'CatalogSource' }));
  await expectText(window, 'The YAML must be a Subscription of operators.coreos.com/v1alpha1.');
  await write(JSON.stringify({ ...subscription, spec: { ...subscription.spec, startingCsv: 'kettle.v1.1.0' } }));
  await review.click();
  await expectText(window, /unknown field "spec.startingCsv"/);
  await write(JSON.stringify({ ...subscription, metadata: { ...subscription.metadata, labels: { team: 'no label' } } }));
  await review.click();
  await expectText(window, /a valid label must be an empty string or consist of alphanumeric characters/);

  await write(JSON.stringify(subscription));
  await window.getByRole('button', { name: 'Form view' }).click();
  await window.getByRole('radio', { name: 'Manual' }).check();
  assert.equal(await window.getByLabel('Version').inputValue(), 'kettle.v1.1.0');
  await window.getByRole('button', { name: 'Configuration', exact: true }).click();
  await window.getByRole('button', { name: 'YAML', exact: true }).click();
  await editor.getByText('disk: fast').waitFor();
  await review.click();
  await window.getByRole('button', { name: /^Objects that are created/ }).click();
  await window.getByRole('button', { name: 'Subscription kitchen/pot' }).click();
  for (const kept of [/team: teas/, /startingCSV: kettle.v1.1.0/, /installPlanApproval: Manual/]) await expectText(window, kept);
  expectNoErrors(window);
});

test('an operator is installed, approved, upgraded and removed', async () => {
  const window = await signIn('admin', form);
  await window.getByLabel('Version').selectOption('1.0.0');
  assert.equal(await window.locator('#main').getByRole('textbox', { name: /^Namespace/ }).inputValue(), 'kitchen', 'the namespace that the author recommends');
  await expectText(window, 'The namespace does not exist yet.');
  const install = window.getByRole('button', { name: 'Install', exact: true });
  assert.ok(await install.isDisabled());
  await window.getByRole('button', { name: 'Review' }).click();
  await expectText(window, 'OLM installs kettle.v1.0.0. The operator watches kitchen.');
  await window.getByRole('button', { name: /^Objects that are created/ }).click();
  await window.getByRole('button', { name: 'OperatorGroup kitchen' }).first().waitFor();
  await expectAccessible(window);
  await savePicture(window, 'install-operator');

  await install.click();
  await window.waitForURL(new RegExp(page));
  await approve(window, 'kettle.v1.0.0');
  await expectText(window, 'Create your first custom resource');
  const spec = JSON.parse(await kubectl('get', 'subscription', 'kettle', '-n', 'kitchen', '-o', 'jsonpath={.spec}')) as object;
  assert.deepEqual(spec, {
    channel: 'stable', name: 'kettle', source: 'kitchen', sourceNamespace: 'olm', startingCSV: 'kettle.v1.0.0', installPlanApproval: 'Manual',
  });

  await approve(window, 'kettle.v1.1.0');
  await expectText(window, /Installed version/);
  await window.locator('dd').getByText('1.1.0', { exact: true }).waitFor();
  await window.locator('dl div').filter({ hasText: 'Managed namespaces' }).getByRole('link', { name: 'kitchen', exact: true }).waitFor();
  await expectAccessible(window);

  await window.getByRole('tab', { name: 'Permissions' }).click();
  await expectText(window, 'kettles');
  await window.getByRole('tab', { name: 'YAML' }).click();
  await expectText(window, /installPlanApproval/);
  await window.setViewportSize({ width: 400, height: 900 });
  await window.getByRole('link', { name: 'Overview' }).waitFor({ state: 'hidden' });
  await expectFitting(window);
  await window.setViewportSize({ width: 1280, height: 900 });

  await window.getByRole('tab', { name: 'Details' }).click();
  await expectText(window, 'The author of the operator requires a Kettle, and there is none');
  await window.getByRole('link', { name: 'Create the Kettle' }).click();
  await window.locator('input[value="first-kettle"]').waitFor();

  await window.goto(new URL(`${page}?action=uninstall`, window.url()).href);
  const dialog = window.getByRole('dialog');
  await dialog.getByText('operator kettle.v1.1.0').waitFor();
  await dialog.getByLabel('Delete the CRDs and all custom resources').check();
  const uninstall = dialog.getByRole('button', { name: 'Uninstall' });
  assert.ok(await uninstall.isDisabled(), 'the name has to be typed');
  await dialog.getByRole('textbox').fill('kettle');
  await uninstall.click();
  await window.waitForURL(/\/installed$/);
  assert.equal(await kubectl('get', 'subscriptions,clusterserviceversions', '-n', 'kitchen', '-o', 'name'), '');
  assert.equal(await kubectl('get', 'crd', 'kettles.kitchen.example.com', '--ignore-not-found', '-o', 'name'), '');
  await kubectl('delete', 'namespace', 'kitchen', '--wait=false');
  expectNoErrors(window);
});
