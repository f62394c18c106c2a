import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { expectAccessible, expectFitting, expectNoErrors, expectText, savePicture, signIn, startBrowser } from './browser.ts';
import { apply, kubectl } from './site.ts';

startBrowser();

const now = new Date().toISOString();
const image = (digit: string) => `registry.example.com/release@sha256:${digit.repeat(64)}`;
const condition = (type: string, status: string, reason = 'AsExpected', message = '') => ({ type, status, reason, message, lastTransitionTime: now });
const history = [{ state: 'Completed', version: '1.4.2', image: image('2'), startedTime: now, completionTime: now, verified: true }];

const idle = {
  versionHash: 'x', observedGeneration: 1, desired: { version: '1.4.2', image: image('2'), channels: ['stable-1.4', 'stable-1.5'] }, history,
  availableUpdates: [{ version: '1.4.3', image: image('3') }],
  conditionalUpdates: [{
    release: { version: '1.5.0', image: image('5') },
    risks: [{ name: 'SlowDisks', url: 'https://issues.example.com/1', message: 'Slow disks fail.', matchingRules: [{ type: 'Always' }] }],
    conditions: [condition('Recommended', 'False', 'SlowDisks', 'Slow disks fail.')],
  }],
  conditions: [
    condition('Available', 'True'), condition('Progressing', 'False', 'AsExpected', 'Cluster version is 1.4.2'), condition('RetrievedUpdates', 'True'),
    condition('Upgradeable', 'False', 'AdminAckRequired', 'Something must be agreed to.'),
  ],
};

const updating = {
  ...idle, desired: { version: '1.4.3', image: image('3') }, availableUpdates: [], conditionalUpdates: [],
  history: [{ state: 'Partial', version: '1.4.3', image: image('3'), startedTime: now, completionTime: null, verified: true }, ...history],
  conditions: [condition('Available', 'True'), condition('Progressing', 'True', 'ClusterOperatorUpdating', 'Working towards 1.4.3')],
};

/** setStatus replaces the status of an object. A merge would drop what is null. */
async function setStatus(kind: string, name: string, status: object): Promise<void> {
  await kubectl('patch', kind, name, '--subresource=status', '--type=json', '-p', JSON.stringify([{ op: 'add', path: '/status', value: status }]));
}

async function createOperator(name: string, version: string): Promise<void> {
  await apply({ apiVersion: 'config.openshift.io/v1', kind: 'ClusterOperator', metadata: { name, annotations: { 'include.release.openshift.io/self-managed': 'true' } }, spec: {} });
  await setStatus('clusteroperator', name, {
    versions: [{ name: 'operator', version }], conditions: [condition('Available', 'True'), condition('Progressing', 'False'), condition('Degraded', 'False')],
  });
}

before(async () => {
  await kubectl('apply', '--server-side', '-k', '../config/platform');
  await kubectl('wait', '--for=condition=Established', 'crd/clusterversions.config.openshift.io', 'crd/clusteroperators.config.openshift.io', 'crd/machineconfigpools.machineconfiguration.openshift.io');
  await apply({
    apiVersion: 'config.openshift.io/v1', kind: 'ClusterVersion', metadata: { name: 'version' },
    spec: { clusterID: '0f2c6f0e-1b2a-4c3d-8e4f-5a6b7c8d9e0f', channel: 'stable-1.4' },
  });
  for (const name of ['master', 'worker']) await apply({ apiVersion: 'machineconfiguration.openshift.io/v1', kind: 'MachineConfigPool', metadata: { name }, spec: {} });
  await createOperator('dns', '1.4.2');
  await createOperator('network', '1.4.3');
  await setStatus('clusterversion', 'version', idle);
});
after(async () => { await kubectl('delete', '-k', '../config/platform', '--ignore-not-found'); });

test('updates with known issues are shown after a switch, with their risks', async () => {
  const page = await signIn('admin', '/cluster');
  const updates = page.getByRole('grid', { name: 'Available updates' });
  await updates.getByText('1.4.3').waitFor();
  assert.equal(await updates.getByText('1.5.0').count(), 0);
  await expectText(page, 'Updates to another minor version are blocked');
  await page.getByText('Show updates with known issues (1)').click();
  await page.getByRole('button', { name: 'Update to 1.5.0' }).waitFor();
  await expectText(page, 'Slow disks fail.');
  await page.getByRole('link', { name: 'https://issues.example.com/1' }).first().waitFor();
  await expectAccessible(page);
  await savePicture(page, 'cluster');
  await page.setViewportSize({ width: 400, height: 900 });
  await page.getByRole('link', { name: 'Overview' }).waitFor({ state: 'hidden' });
  await expectFitting(page);
  expectNoErrors(page);
});

test('an update to a minor version needs each confirmation, and one to a patch version none', async () => {
  const page = await signIn('admin', '/cluster?issues=shown&update=1.5.0');
  const dialog = page.getByRole('dialog');
  const update = dialog.getByRole('button', { name: 'Update', exact: true });
  const confirmations = dialog.getByLabel('I have read this, and want to update anyway');
  await confirmations.first().waitFor();
  assert.equal(await confirmations.count(), 2, 'the risk, and Upgradeable=False');
  await confirmations.first().check();
  assert.ok(await update.isDisabled());
  await confirmations.last().check();
  assert.ok(await update.isEnabled());
  assert.equal(await dialog.getByLabel('Leave pool master at its version: pause it').count(), 0, 'the control plane is always updated');
  await expectAccessible(page);
  await page.keyboard.press('Escape');

  await page.getByRole('button', { name: 'Update to 1.4.3' }).click();
  await dialog.getByText('The cluster is updated from 1.4.2 to 1.4.3.').waitFor();
  await dialog.getByLabel('Leave pool worker at its version: pause it').check();
  await update.click();
  await dialog.waitFor({ state: 'detached' });
  assert.equal(await kubectl('get', 'clusterversion', 'version', '-o', 'jsonpath={.spec.desiredUpdate.version}'), '1.4.3');
  assert.equal(await kubectl('get', 'machineconfigpools', '-o', 'jsonpath={range .items[*]}{.metadata.name}={.spec.paused} {end}'), 'master= worker=true ');
  expectNoErrors(page);
});

test('the progress counts operators, and a paused pool is resumed there', async () => {
  await setStatus('clusterversion', 'version', updating);
  // An empty selector selects all nodes, and none selects nothing.
  await kubectl('patch', 'machineconfigpool', 'worker', '--type=merge', '-p', JSON.stringify({ spec: { nodeSelector: {} } }));
  const page = await signIn('admin', '/cluster');
  await expectText(page, /Update to 1\.4\.3/);
  await page.getByText('1 of 2').first().waitFor();
  await expectText(page, 'Nodes of worker');
  await expectText(page, /After .*(remain|estimated)/);
  await expectAccessible(page);
  await savePicture(page, 'cluster-update');
  await page.getByRole('button', { name: 'Resume', exact: true }).first().click();
  await page.getByRole('button', { name: 'Resume', exact: true }).first().waitFor({ state: 'detached' });
  assert.notEqual(await kubectl('get', 'machineconfigpool', 'worker', '-o', 'jsonpath={.spec.paused}'), 'true');
  expectNoErrors(page);
});
