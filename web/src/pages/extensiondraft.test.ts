import { describe, expect, it } from 'vitest';

import { formatYaml, parseObject } from '../components/yamltext';
import { completeDraft, newDraft, readYaml, toRequest, toYaml, versionsOf, type Draft } from './extensiondraft';

const fresh = newDraft(new URLSearchParams('package=argocd&catalog=hub&channel=alpha&version=0.6.0'));
const base = completeDraft(fresh, []);

/** switchToYaml returns the form in its YAML view, with the text that the person has written in place of the generated one. */
function switchToYaml(draft: Draft, write: (text: string) => string = (text) => text): Draft {
  const yaml = { ...draft, isYaml: true, object: toYaml(draft) };
  return { ...yaml, ...readYaml(yaml, write(yaml.object)) };
}

describe('the form of an extension', () => {
  it('starts with what its address names', () => {
    expect(toRequest(base)).toEqual({
      package: 'argocd', name: 'argocd', namespace: 'argocd', createNamespace: true, catalogs: ['hub'], channels: ['alpha'], version: '0.6.0', generateAccount: true,
    });
  });

  it('leaves cleared fields out', () => {
    expect(toRequest({ ...base, catalogs: [], channels: [], version: ' ', account: 'none' })).toEqual({ package: 'argocd', name: 'argocd', namespace: 'argocd', createNamespace: true });
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

  it('uses an existing service account with the default name, unless the person chooses another', () => {
    const accounts = ['argocd-installer', 'default'];
    expect(toRequest(completeDraft(fresh, accounts))).toMatchObject({ serviceAccount: 'argocd-installer' });
    expect(toRequest(completeDraft(fresh, accounts))).not.toHaveProperty('generateAccount');
    expect(completeDraft(fresh, ['default']).account).toBe('generated');
    expect(completeDraft({ ...fresh, account: 'none' }, accounts).account).toBe('none');
  });

  it('shows the ClusterExtension that is created as YAML', () => {
    const draft = { ...base, channels: [], isCRDUpgradeSafe: false, config: 'watchNamespace: team-a' };
    expect(parseObject(toYaml(draft)).value).toEqual({
      apiVersion: 'olm.operatorframework.io/v1', kind: 'ClusterExtension', metadata: { name: 'argocd' },
      spec: {
        namespace: 'argocd', serviceAccount: { name: 'argocd-installer' },
        source: { sourceType: 'Catalog', catalog: { packageName: 'argocd', version: '0.6.0', selector: { matchLabels: { 'olm.operatorframework.io/metadata.name': 'hub' } } } },
        install: { preflight: { crdUpgradeSafety: { enforcement: 'None' } } },
        config: { configType: 'Inline', inline: { watchNamespace: 'team-a' } },
      },
    });
  });

  it.each<[string, Partial<Draft>]>([
    ['what an address names', {}],
    ['several catalogs and channels', { catalogs: ['hub', 'other'], channels: ['alpha', 'beta'] }],
    ['an existing service account', { account: 'existing', serviceAccount: 'mine' }],
    ['no service account', { account: 'none' }],
    ['a configuration, and CRDs without a check', { config: 'watchNamespace: a\n', isCRDUpgradeSafe: false }],
    ['nothing but the package', { catalogs: [], channels: [], version: '' }],
  ])('keeps %s in the YAML view', (_what, fields) => {
    const before = { ...base, ...fields };
    expect({ ...switchToYaml(before, (text) => `${text}# a comment\n`), object: '', isYaml: false }).toEqual(before);
  });

  it('keeps what the form does not show, when it is changed in the form and shown as YAML again', () => {
    const written = {
      apiVersion: 'olm.operatorframework.io/v1', kind: 'ClusterExtension', metadata: { name: 'argocd', labels: { team: 'a' } },
      spec: {
        namespace: 'argocd', serviceAccount: { name: 'argocd-installer' }, progressDeadlineMinutes: 30,
        source: { sourceType: 'Catalog', catalog: { packageName: 'argocd', upgradeConstraintPolicy: 'SelfCertified', selector: { matchLabels: { tier: 'gold' } } } },
        install: { accessRoles: 'Aggregated', preflight: { crdUpgradeSafety: { enforcement: 'Strict' } } },
      },
    };
    const form = { ...switchToYaml(base, () => `# mine\n${formatYaml(written)}`), isYaml: false, version: '1.0.0' };
    const want = structuredClone(written) as typeof written & { spec: { source: { catalog: { version?: string } } } };
    want.spec.source.catalog.version = '1.0.0';
    expect(toRequest(form)).toMatchObject({ version: '1.0.0', generateAccount: true, object: want });
    expect(toRequest(form)).not.toHaveProperty('catalogs');
    expect(toYaml(form)).toMatch(/^# mine\n/);
    expect(parseObject(toYaml(form)).value).toEqual(want);
  });

  it.each<[string, string, string]>([
    ['of another kind', 'kind: Pod', 'The YAML must be a ClusterExtension of olm.operatorframework.io/v1.'],
    ['with an error', 'a: [', 'The YAML is not valid.'],
    ['without a package', 'apiVersion: olm.operatorframework.io/v1\nkind: ClusterExtension', 'The package is missing (spec.source.catalog.packageName).'],
  ])('does not install a YAML %s', (_what, text, want) => {
    expect(toRequest(switchToYaml(base, () => text))).toContain(want);
  });

  it('offers the versions of the chosen catalog and channel', () => {
    const offers = {
      versions: ['7.0.0', '0.10.0', '0.10.0-rc.1', '0.9.0', '0.6.0'],
      catalogs: [
        { catalog: 'hub', priority: 0, channels: [{ name: 'alpha', versions: ['0.9.0', '0.6.0'] }, { name: 'beta', versions: ['0.10.0', '0.10.0-rc.1'] }] },
        { catalog: 'other', priority: 0, channels: [{ name: 'alpha', versions: ['7.0.0'] }] },
      ],
    };
    expect(versionsOf(offers, { catalogs: ['hub'], channels: [] })).toEqual(['0.10.0', '0.10.0-rc.1', '0.9.0', '0.6.0']);
    expect(versionsOf(offers, { catalogs: [], channels: ['alpha'] })).toEqual(['7.0.0', '0.9.0', '0.6.0']);
  });
});
