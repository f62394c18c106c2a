import { describe, expect, it } from 'vitest';

import { newDraft, toRequest, versionsOf, type Draft } from './extensiondraft';

const base = newDraft(new URLSearchParams('package=argocd&catalog=hub&channel=alpha&version=0.6.0'));

describe('the form of an extension', () => {
  it('starts with what its address names', () => {
    expect(toRequest(base)).toEqual({
      package: 'argocd', name: 'argocd', namespace: 'argocd', createNamespace: true, catalogs: ['hub'], channels: ['alpha'], version: '0.6.0', generateAccount: true,
    });
  });

  it('leaves cleared fields out', () => {
    expect(toRequest({ ...base, catalogs: [], channel: '', version: ' ', account: 'none' })).toEqual({ package: 'argocd', name: 'argocd', namespace: 'argocd', createNamespace: true });
  });

  it.each<[string, Partial<Draft>, string]>([
    ['name', { name: '' }, 'A name and a namespace are required.'],
    ['service account', { account: 'existing' }, 'Name the service account.'],
    ['configuration', { config: '- a' }, 'The configuration is not valid. It must be an object.'],
  ])('asks for the %s', (_what, fields, text) => {
    expect(toRequest({ ...base, ...fields })).toBe(text);
  });

  it('sends the configuration as an object', () => {
    expect(toRequest({ ...base, config: 'watchNamespace: team-a' })).toMatchObject({ config: { watchNamespace: 'team-a' } });
  });

  it('offers the versions of the chosen catalog and channel', () => {
    const offers = {
      versions: ['7.0.0', '0.10.0', '0.10.0-rc.1', '0.9.0', '0.6.0'],
      catalogs: [
        { catalog: 'hub', priority: 0, channels: [{ name: 'alpha', versions: ['0.9.0', '0.6.0'] }, { name: 'beta', versions: ['0.10.0', '0.10.0-rc.1'] }] },
        { catalog: 'other', priority: 0, channels: [{ name: 'alpha', versions: ['7.0.0'] }] },
      ],
    };
    expect(versionsOf(offers, { catalogs: ['hub'], channel: '' })).toEqual(['0.10.0', '0.10.0-rc.1', '0.9.0', '0.6.0']);
    expect(versionsOf(offers, { catalogs: [], channel: 'alpha' })).toEqual(['7.0.0', '0.9.0', '0.6.0']);
  });
});
