import { describe, expect, it } from 'vitest';

import { readConfig, readConfigSchema } from './operatorconfiguration';

describe('the configuration of an operator', () => {
  it('is that of the Subscription', () => {
    expect(readConfig('spec:\n  name: kettle\n  config:\n    nodeSelector: {disk: fast}\n')).toEqual({ nodeSelector: { disk: 'fast' } });
    expect(readConfig('spec: {name: kettle}')).toBeUndefined();
  });

  it('has the schema of the field of Subscriptions, if that is published', () => {
    const config = { type: 'object', properties: { env: { type: 'array' } } };
    expect(readConfigSchema({ properties: { spec: { properties: { config } } }, components: { a: 1 } })).toEqual({ ...config, components: { a: 1 } });
    expect(readConfigSchema({ properties: { spec: { properties: { config: { type: 'object' } } } } })).toBeUndefined();
    expect(readConfigSchema(undefined)).toBeUndefined();
  });
});
