import { describe, expect, it } from 'vitest';

import type { Schemas } from '../api/client';
import { formatYaml, parseObject } from '../components/yamltext';
import { completeDraft, isMonitored, mustApprove, newDraft, readVariable, readYaml, recommendedNamespace, showYaml, supportsMode, toRequest, writeVariable, type Draft } from './subscriptiondraft';

const offer: Schemas['Offer'] = {
  package: 'kettle', catalog: 'olm/home', defaultNamespace: 'kettle', namespaceExists: true,
  channels: [
    { name: 'beta', versions: [{ name: 'kettle.v2.0.0', version: '2.0.0', head: true }] },
    { name: 'stable', default: true, versions: [{ name: 'kettle.v1.1.0', version: '1.1.0', head: true }, { name: 'kettle.v1.0.0', version: '1.0.0', needsManual: 'It is an older version.' }] },
  ],
  details: [{ channel: 'beta', modes: [] }, { channel: 'stable', modes: ['OwnNamespace'], suggestedNamespace: 'kettles' }],
};
const draft = (address: string) => completeDraft(newDraft(new URLSearchParams(address)), offer);

describe('the form of an operator', () => {
  it('starts with the default channel and its newest version', () => {
    expect(draft('package=kettle')).toMatchObject({ channel: 'stable', csv: '', isManual: false });
    expect(recommendedNamespace(offer, 'stable')).toBe('kettles');
    expect(recommendedNamespace(offer, 'beta')).toBeUndefined();
  });

  it('starts with the widest mode that the operator supports', () => {
    expect(draft('package=kettle').mode).toBe('own');
    expect(draft('package=kettle&channel=beta').mode).toBe('all');
    expect(supportsMode(offer, 'stable', 'all')).toBe(false);
    expect(toRequest(draft('package=kettle&namespace=a'), offer)).toMatchObject({ watchNamespaces: ['a'] });
    expect(toRequest(draft('package=kettle&channel=beta&namespace=a'), offer)).not.toHaveProperty('watchNamespaces');
  });

  it('needs manual approval for an older version', () => {
    const older = draft('package=kettle&version=1.0.0&namespace=a');
    expect(older).toMatchObject({ csv: 'kettle.v1.0.0' });
    expect(mustApprove(older, offer)).toBe('It is an older version.');
    expect(toRequest(older, offer)).toMatchObject({ startingCSV: 'kettle.v1.0.0', isManual: true });
  });

  it('needs no manual approval beside an operator with manual approval', () => {
    expect(mustApprove(draft('package=kettle'), { ...offer, manualSiblings: ['pot'] })).toBe('');
  });

  it.each<[string, Partial<Draft>, boolean, boolean | undefined]>([
    ['is enabled if the offer says so', {}, true, true],
    ['is disabled otherwise', {}, false, false],
    ['is enabled by the user', { isMonitored: true }, false, true],
    ['is disabled by the user', { isMonitored: false }, true, false],
    ['is not offered for another namespace', { namespace: 'elsewhere', isMonitored: true }, true, undefined],
    ['is not offered for another channel', { channel: 'beta', isMonitored: true }, true, undefined],
    ['is not offered for a namespace that is not created', { createNamespace: false, isMonitored: true }, true, undefined],
  ])('cluster monitoring %s', (_what, fields, isDefault, want) => {
    const monitored = { ...offer, details: offer.details.map((d) => (d.channel === 'stable' ? { ...d, clusterMonitoring: { default: isDefault } } : d)) };
    const edited = { ...draft('package=kettle&namespace=kettles'), ...fields };
    expect(isMonitored(edited, monitored)).toBe(want);
    expect(toRequest(edited, monitored)).toMatchObject(want === true ? { clusterMonitoring: true } : { package: 'kettle' });
    expect(Object.hasOwn(toRequest(edited, monitored) as object, 'clusterMonitoring')).toBe(want === true);
    expect(isMonitored(edited, offer)).toBeUndefined();
  });

  it('writes only filled credentials into the configuration', () => {
    const filled = writeVariable(writeVariable('# mine\nnodeSelector:\n  disk: fast\n', 'ROLEARN', ' arn '), 'CLIENTID', '');
    expect(filled).toMatch(/^# mine\n/);
    expect(readVariable(filled, 'ROLEARN')).toBe('arn');
    expect(toRequest({ ...draft('package=kettle&namespace=a'), config: filled }, offer)).toEqual({
      package: 'kettle', channel: 'stable', createNamespace: true, catalog: 'olm/home', watchNamespaces: ['a'],
      config: { nodeSelector: { disk: 'fast' }, env: [{ name: 'ROLEARN', value: 'arn' }] },
    });
    expect(parseObject(writeVariable('env: [{name: A, value: x}, {name: ROLEARN, value: old}, {name: B, value: y}]', 'ROLEARN', 'new')).value).toEqual({
      env: [{ name: 'A', value: 'x' }, { name: 'ROLEARN', value: 'new' }, { name: 'B', value: 'y' }],
    });
    expect(writeVariable('env: [{name: ROLEARN, value: old}]', 'ROLEARN', '')).toBe('');
  });

  it('sends the configuration as an object', () => {
    const configured = { ...draft('package=kettle&namespace=a'), config: 'nodeSelector:\n  disk: fast' };
    expect(toRequest(configured, offer)).toMatchObject({ config: { nodeSelector: { disk: 'fast' } } });
    expect(toRequest({ ...configured, config: '# nothing' }, offer)).not.toHaveProperty('config');
    expect(toRequest({ ...configured, config: '- a' }, offer)).toBe('The configuration is not valid. It must be an object.');
  });

  it('names the watched namespaces only for a new OperatorGroup', () => {
    const others = { ...draft('package=kettle&namespace=a'), mode: 'others' as const, watch: 'b, c' };
    expect(toRequest(others, offer)).toMatchObject({ watchNamespaces: ['b', 'c'] });
    expect(toRequest(others, { ...offer, operatorGroup: { name: 'g' } })).not.toHaveProperty('watchNamespaces');
    expect(toRequest({ ...others, watch: ' ' }, offer)).toContain('Name the namespaces');
  });
});

describe('the YAML of an operator', () => {
  const base = draft('package=kettle&namespace=a');
  const written = {
    apiVersion: 'operators.coreos.com/v1alpha1', kind: 'Subscription',
    metadata: { name: 'pot', namespace: 'a', labels: { team: 'teas' }, annotations: { note: 'mine' } },
    spec: {
      name: 'kettle', source: 'home', sourceNamespace: 'olm', channel: 'stable', startingCSV: 'kettle.v1.1.0', installPlanApproval: 'Manual',
      config: { env: [{ name: 'A', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }, { name: 'ROLEARN', value: 'arn' }, { name: 'B', value: 'b' }], nodeSelector: { disk: 'fast' }, tolerations: [{ key: 'kettle' }] },
    },
  };

  /** switchToYaml returns the form in its YAML view, with the text that the person has written in place of the generated one. */
  function switchToYaml(before: Draft, write: (text: string) => string = (text) => text): Draft {
    const yaml = { ...before, ...showYaml(before, offer) };
    return completeDraft({ ...yaml, ...readYaml(yaml, write(yaml.object)) }, offer);
  }

  /** switchToForm returns the form in its form view. */
  const switchToForm = (before: Draft): Draft => completeDraft({ ...before, isYaml: false }, offer);

  it('is the Subscription that is created', () => {
    expect(parseObject(switchToYaml({ ...base, csv: 'kettle.v1.0.0', config: 'nodeSelector: {disk: fast}' }).object).value).toEqual({
      apiVersion: 'operators.coreos.com/v1alpha1', kind: 'Subscription', metadata: { name: 'kettle', namespace: 'a' },
      spec: {
        name: 'kettle', source: 'home', sourceNamespace: 'olm', channel: 'stable', startingCSV: 'kettle.v1.0.0', installPlanApproval: 'Manual', config: { nodeSelector: { disk: 'fast' } },
      },
    });
  });

  it.each<[string, Partial<Draft>]>([
    ['what an address names', {}],
    ['another channel', { channel: 'beta' }],
    ['an older version with approval Manual', { csv: 'kettle.v1.0.0', isManual: true }],
    ['the watched namespaces', { mode: 'others', watch: 'b, c' }],
    ['a configuration with a comment', { config: '# mine\nnodeSelector:\n  disk: fast\n' }],
  ])('keeps %s', (_what, fields) => {
    const before = { ...base, catalog: 'olm/home', name: 'kettle', ...fields };
    expect({ ...switchToForm(switchToYaml(before, (text) => `${text}# a comment\n`)), object: '' }).toEqual(before);
  });

  it('keeps what the form does not show, when it is changed in the form and shown as YAML again', () => {
    const form = switchToForm(switchToYaml(base, () => `# mine\n${formatYaml(written)}`));
    expect(form).toMatchObject({ name: 'pot', csv: 'kettle.v1.1.0', isManual: true });
    const unchanged = switchToYaml(form);
    expect(parseObject(unchanged.object).value).toEqual(written);

    const changed = { ...form, csv: '', isManual: false, config: writeVariable(form.config, 'ROLEARN', 'other') };
    const want = structuredClone(written) as Omit<typeof written, 'spec'> & { spec: Partial<typeof written.spec> };
    delete want.spec.startingCSV;
    want.spec.installPlanApproval = 'Automatic';
    want.spec.config?.env.splice(1, 1, { name: 'ROLEARN', value: 'other' });
    expect(toRequest(changed, offer)).toMatchObject({ name: 'pot', object: want, config: want.spec.config });
    expect(toRequest(changed, offer)).not.toHaveProperty('startingCSV');
    const again = switchToYaml(changed);
    expect(again.object).toMatch(/^# mine\n/);
    expect(parseObject(again.object).value).toEqual(want);
    expect(toRequest(again, offer)).toMatchObject({ object: want });
  });

  it.each<[string, string, string]>([
    ['of another kind', formatYaml({ ...written, kind: 'CatalogSource' }), 'The YAML must be a Subscription of operators.coreos.com/v1alpha1.'],
    ['of another API', formatYaml({ ...written, apiVersion: 'apps.open-cluster-management.io/v1' }), 'The YAML must be a Subscription of operators.coreos.com/v1alpha1.'],
    ['with an error', 'kind: Subscription\na: [', 'The YAML is not valid. Line 2: '],
    ['without a package', formatYaml({ ...written, spec: { ...written.spec, name: undefined } }), 'The package is missing (spec.name).'],
    ['without a catalog', formatYaml({ ...written, spec: { ...written.spec, source: undefined } }), 'The catalog is missing (spec.source and spec.sourceNamespace).'],
    ['without a namespace', formatYaml({ ...written, metadata: { name: 'pot' } }), 'A namespace is required.'],
    [
      'that upgrades an older version at once', formatYaml({ ...written, spec: { ...written.spec, startingCSV: 'kettle.v1.0.0', installPlanApproval: 'Automatic' } }),
      'It is an older version. Set spec.installPlanApproval to Manual.',
    ],
  ])('is not installed %s', (_what, text, want) => {
    const yaml = switchToYaml(base, () => text);
    expect(toRequest(yaml, offer)).toContain(want);
    expect(yaml.object).toBe(text);
  });
});
