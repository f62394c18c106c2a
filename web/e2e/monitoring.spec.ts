import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { expectAccessible, expectNoErrors, expectText, signIn, startBrowser } from './browser.ts';
import { addKettles } from './kettle.ts';
import { kubectl } from './site.ts';

startBrowser();

const namespace = 'openshift-kitchen';
let removeKettles: () => Promise<void>;
before(async () => {
  removeKettles = await addKettles({ 'operatorframework.io/cluster-monitoring': 'true', 'operatorframework.io/suggested-namespace': namespace });
});
after(async () => {
  await removeKettles();
  await kubectl('delete', 'namespace', namespace, '--ignore-not-found', '--wait=false');
});

test('cluster monitoring is enabled only if it is ticked', async () => {
  const window = await signIn('admin', '/install/subscription?package=kettle&catalog=olm/kitchen');
  await expectText(window, 'The namespace does not exist yet.');
  const box = window.getByRole('checkbox', { name: 'Enable cluster monitoring for the namespace' });
  assert.equal(await box.isChecked(), false, 'the catalog is no default catalog');
  await expectAccessible(window);

  const review = window.getByRole('button', { name: 'Review' });
  const objects = window.getByRole('button', { name: /^Objects that are created/ });
  const role = window.getByRole('button', { name: `Role ${namespace}/${namespace}-prometheus`, exact: true });
  await review.click();
  await objects.click();
  await window.getByRole('button', { name: `Namespace ${namespace}` }).waitFor();
  assert.equal(await role.count(), 0);

  await box.check();
  await review.click();
  await objects.click();
  await role.waitFor();
  await window.getByRole('button', { name: 'Install', exact: true }).click();
  await window.waitForURL(new RegExp(`/installed/subscriptions/${namespace}/kettle`));
  const label = await kubectl('get', 'namespace', namespace, '-o', String.raw`jsonpath={.metadata.labels.openshift\.io/cluster-monitoring}`);
  assert.equal(label, 'true');
  const subject = await kubectl('get', 'rolebinding', `${namespace}-prometheus`, '-n', namespace, '-o', 'jsonpath={.subjects[0].namespace}/{.subjects[0].name}');
  assert.equal(subject, 'openshift-monitoring/prometheus-k8s');

  const again = await signIn('admin', `/install/subscription?package=kettle&catalog=olm/kitchen&namespace=${namespace}`);
  await expectText(again, 'The package is installed in this namespace already');
  assert.equal(await again.getByRole('checkbox', { name: 'Enable cluster monitoring for the namespace' }).count(), 0);
  expectNoErrors(window);
});
