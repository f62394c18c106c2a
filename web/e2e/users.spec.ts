import assert from 'node:assert/strict';
import { test } from 'node:test';

import { expectAccessible, expectNoErrors, expectText, signIn, startBrowser } from './browser.ts';
import { apply, kubectl } from './site.ts';

startBrowser();

test('a user without rights is told the missing permissions', async () => {
  const page = await signIn('nobody', '/installed');
  await expectText(page, 'clusterextensions are missing from this list');
  await expectText(page, 'subscriptions are missing from this list');
  assert.equal(await page.getByRole('link', { name: 'hello-operator' }).count(), 0);
  await expectAccessible(page);
  expectNoErrors(page);
});

test('a user without rights may not open an extension', async () => {
  const page = await signIn('nobody', '/installed/extensions/hello-operator');
  await expectText(page, 'You are not allowed to see this');
  await expectAccessible(page);
});

test('a user of one namespace names it, and sees what is in it', async () => {
  const page = await signIn('tenant', '/installed');
  await expectText(page, 'subscriptions are missing from this list');
  await page.getByLabel('Namespace').fill('team-a');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'hello-operator' }).click();
  await page.getByRole('heading', { level: 1, name: 'hello-operator' }).waitFor();
  assert.match(page.url(), /subscriptions\/team-a\/hello-operator/);

  await page.goto(new URL('/installed?namespace=team-b', page.url()).href);
  await expectText(page, 'subscriptions are missing from this list');
  assert.equal(await page.getByText('lost-operator').count(), 0);
});

test('two users at once see their own, and follow changes', async () => {
  const admin = await signIn('admin', '/installed');
  const tenant = await signIn('tenant', '/installed?namespace=team-a');
  await Promise.all([admin, tenant].map((page) => page.getByRole('link', { name: 'hello-operator' }).first().waitFor()));
  for (const namespace of ['team-a', 'team-b']) {
    await apply({
      apiVersion: 'operators.coreos.com/v1alpha1', kind: 'Subscription', metadata: { name: `new-in-${namespace}`, namespace },
      spec: { name: 'new', source: 'none-such', sourceNamespace: namespace },
    });
  }

  await admin.getByRole('link', { name: 'new-in-team-b' }).waitFor();
  await admin.getByRole('link', { name: 'new-in-team-a' }).waitFor();
  await tenant.getByRole('link', { name: 'new-in-team-a' }).waitFor();
  assert.equal(await tenant.getByText('new-in-team-b').count(), 0);

  await kubectl('delete', 'subscription', '-n', 'team-a', 'new-in-team-a');
  await kubectl('delete', 'subscription', '-n', 'team-b', 'new-in-team-b');
  await tenant.getByRole('link', { name: 'new-in-team-a' }).waitFor({ state: 'detached' });
  await admin.getByRole('link', { name: 'new-in-team-a' }).waitFor({ state: 'detached' });
});
