import { describe, expect, it } from 'vitest';

import type { Schemas } from '../api/client';
import { completeDraft, mustApprove, newDraft, recommendedNamespace, supportsMode, toRequest } from './subscriptiondraft';

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

  it('sends only filled credentials', () => {
    expect(toRequest({ ...draft('package=kettle&namespace=a'), env: { ROLEARN: ' arn ', CLIENTID: '' } }, offer)).toEqual({
      package: 'kettle', channel: 'stable', createNamespace: true, catalog: 'olm/home', watchNamespaces: ['a'], env: [{ name: 'ROLEARN', value: 'arn' }],
    });
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
