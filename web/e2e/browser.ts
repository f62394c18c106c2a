import assert from 'node:assert/strict';
import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { after, before } from 'node:test';

import { AxeBuilder } from '@axe-core/playwright';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';

import { address, tokenOf, type User } from './site.ts';

let browser: Browser;

/** waitTimeout is how long a page may take on a slow and busy machine. */
const waitTimeout = 60_000;

/** Options of a window. */
interface Options {
  colorScheme?: 'light' | 'dark';
  width?: number;
}

const contexts: BrowserContext[] = [];

/** startBrowser starts a browser for the tests of a file, and ends it after them. */
export function startBrowser(): void {
  before(async () => {
    browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
  });
  after(async () => {
    await Promise.all(contexts.map((context) => context.close()));
    await browser.close();
  });
}

/**
 * openWindow opens a browser window of its own, with a page at a path. Errors of scripts and violations of the content security policy
 * fail the test that asks for them with expectNoErrors.
 */
export async function openWindow(location: string, { colorScheme = 'light', width = 1280 }: Options = {}): Promise<Page> {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, colorScheme, viewport: { width, height: 900 }, reducedMotion: 'reduce' });
  contexts.push(context);
  context.setDefaultTimeout(waitTimeout);
  const page = await context.newPage();
  const errors: string[] = [];
  errorsOf.set(page, errors);
  page.on('pageerror', (error) => errors.push(error.message));
  page.on('console', (message) => {
    if (message.type() === 'error' && message.text().includes('Content Security Policy')) errors.push(message.text());
  });
  await goTo(page, location);
  return page;
}

/** goTo opens a path of the console, or the address of another site. Chromium gives up when any network of the machine changes, also one that has nothing to do with the test. */
async function goTo(page: Page, location: string): Promise<void> {
  for (;;) {
    try {
      await page.goto(new URL(location, address).href);
      return;
    } catch (error) {
      if (!(error instanceof Error && error.message.includes('ERR_NETWORK_CHANGED'))) throw error;
    }
  }
}

const errorsOf = new WeakMap<Page, string[]>();

/** expectNoErrors fails if a script of a page has failed, or if its content security policy was violated. */
export function expectNoErrors(page: Page): void {
  assert.deepEqual(errorsOf.get(page), [], 'errors of scripts, and violations of the content security policy');
}

/** signIn opens a page as a user. */
export async function signIn(user: User, location = '/', options: Options = {}): Promise<Page> {
  const page = await openWindow(location, options);
  await page.getByLabel('Token').fill(tokenOf(user));
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Sign out' }).waitFor();
  return page;
}

/** expectText waits until a page shows a text. */
export async function expectText(page: Page, text: string | RegExp): Promise<void> {
  await page.getByText(text).first().waitFor();
}

/** expectAccessible fails if axe finds something serious, in the light and in the dark theme. */
export async function expectAccessible(page: Page): Promise<void> {
  for (const theme of ['light', 'dark']) {
    const button = page.getByRole('button', { name: `Use the ${theme} theme` });
    if (await button.isVisible()) {
      await button.click();
      await page.locator(theme === 'dark' ? 'html.pf-v6-theme-dark' : 'html:not(.pf-v6-theme-dark)').waitFor();
    }
    await page.evaluate(() => {
      const ending = document.getAnimations().filter(({ effect }) => effect?.getComputedTiming().endTime !== Infinity);
      return Promise.allSettled(ending.map((animation) => animation.finished));
    });
    const { violations } = await new AxeBuilder({ page }).analyze();
    const serious = violations
      .filter(({ impact }) => impact === 'serious' || impact === 'critical')
      .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join('\n')}`);
    assert.deepEqual(serious, [], `serious violations in the ${theme} theme`);
  }
  const light = page.getByRole('button', { name: 'Use the light theme' });
  if (await light.isVisible()) await light.click();
}

/** savePicture writes the picture of a page for the documentation, if pictures are to be updated. */
export async function savePicture(page: Page, name: string): Promise<void> {
  if (process.env['CONSOLE_E2E_UPDATE'] === undefined) return;
  const folder = path.join(import.meta.dirname, '..', '..', 'docs', 'console');
  await mkdir(folder, { recursive: true });
  await page.screenshot({ path: path.join(folder, `${name}.png`), animations: 'disabled' });
}

/** expectFitting fails if a page is wider than its window. */
export async function expectFitting(page: Page): Promise<void> {
  const { content, available } = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    return { content: scrollWidth, available: clientWidth };
  });
  assert.ok(content <= available, `the page is ${content} pixels wide, in a window of ${available}`);
}
