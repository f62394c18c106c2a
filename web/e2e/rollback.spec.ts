import assert from 'node:assert/strict';
import { test } from 'node:test';

import { expectAccessible, expectNoErrors, savePicture, signIn, startBrowser } from './browser.ts';
import { kubectl, mainstay } from './site.ts';

startBrowser();

test('an extension goes back to a former revision after its plan was shown', async () => {
  await mainstay('extension', 'upgrade', 'hello-operator', '--version', '1.1.0', '--wait');
  const page = await signIn('admin', '/installed/extensions/hello-operator?action=rollback');
  const dialog = page.getByRole('dialog');
  const rollBack = dialog.getByRole('button', { name: 'Roll back', exact: true });
  await dialog.getByLabel('Revision').waitFor();
  assert.ok(await rollBack.isDisabled(), 'there is no plan yet');
  await dialog.getByRole('button', { name: 'Show the plan' }).click();
  await dialog.getByText(/mainstay extension rollback hello-operator --crd-upgrade-safety None/).waitFor();
  assert.ok(await rollBack.isDisabled(), 'version 1.0.0 has a field less');

  await dialog.getByLabel('Do not check that changes of CRDs are safe').check();
  await dialog.getByRole('button', { name: 'Show the plan' }).click();
  await dialog.getByText(/It goes back to revision 1, hello-operator\.v1\.0\.0/).waitFor();
  await expectAccessible(page);
  await savePicture(page, 'rollback');

  await rollBack.click();
  await dialog.waitFor({ state: 'detached' });
  await kubectl('wait', 'clusterextension/hello-operator', '--for=jsonpath={.status.install.bundle.version}=1.0.0', '--timeout=60s');
  assert.equal(await kubectl('get', 'clusterextension', 'hello-operator', '-o', 'jsonpath={.spec.source.catalog.version}'), '1.0.0');
  expectNoErrors(page);
});
