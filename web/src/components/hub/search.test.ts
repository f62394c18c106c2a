import { describe, expect, it } from 'vitest';

import { facets, findPackages, isSimilar, sortValues, type PackageSummary } from './search';

function pkg(name: string, fields: Partial<PackageSummary> = {}): PackageSummary {
  return { catalog: 'hub', name, ...fields };
}

const packages = [
  pkg('argo-rollouts', { displayName: 'Argo Rollouts', capability: 'Auto Pilot' }),
  pkg('argocd-operator', { displayName: 'Argo CD', keywords: ['gitops'], provider: 'Argo', capability: 'Deep Insights', categories: ['Delivery'] }),
  pkg('database', { description: 'Works with Argo CD', capability: 'Basic Install', deprecated: 'use another' }),
  pkg('argo', { catalog: 'olm:other' }),
  pkg('__proto__', { keywords: ['constructor'] }),
];

function names(text: string, chosen: [string, string[]][] = []): string[] {
  return findPackages(packages, text, new Map(chosen.map(([key, values]) => [key, new Set(values)]))).packages.map((p) => p.name);
}

describe('the search', () => {
  it.each([
    ['', ['argo-rollouts', 'argocd-operator', 'database', 'argo', '__proto__']],
    ['argo', ['argo', 'argo-rollouts', 'argocd-operator', 'database']],
    ['argo cd', ['argocd-operator', 'database']],
    ['ARGO  roll', ['argo-rollouts']],
    ['gitops', ['argocd-operator']],
    ['git', ['argocd-operator']],
    ['rollots', ['argo-rollouts']],
    ['databsae', ['database']],
    ['constructor', ['__proto__']],
    ['nothing', []],
    ['(.*', []],
  ])('finds %j', (text, found) => {
    if (text === '(.*') expect(() => names(text)).not.toThrow();
    else expect(names(text)).toEqual(found);
  });

  it('says when the words are only similar', () => {
    expect(findPackages(packages, 'databsae', new Map()).isSimilar).toBe(true);
    expect(findPackages(packages, 'database', new Map()).isSimilar).toBe(false);
  });

  it('combines facets, and the values of a facet are alternatives', () => {
    expect(names('', [['capability', ['Auto Pilot', 'Deep Insights']]])).toEqual(['argo-rollouts', 'argocd-operator']);
    expect(names('', [['capability', ['Auto Pilot', 'Deep Insights']], ['category', ['Delivery']]])).toEqual(['argocd-operator']);
    expect(names('', [['catalog', ['olm/other']]])).toEqual(['argo']);
    expect(names('', [['deprecated', ['Yes']]])).toEqual(['database']);
  });

  it('counts what a further choice would find', () => {
    const { counts } = findPackages(packages, 'argo', new Map([['capability', new Set(['Auto Pilot'])]]));
    expect(Object.fromEntries(counts.get('capability') ?? [])).toEqual({ 'Auto Pilot': 1, 'Deep Insights': 1, 'Basic Install': 1 });
    expect(Object.fromEntries(counts.get('catalog') ?? [])).toEqual({ hub: 1 });
  });

  it('lists capability levels in their order', () => {
    const facet = facets.find(({ key }) => key === 'capability');
    expect(facet && sortValues(facet, ['Auto Pilot', 'Basic Install', 'Deep Insights'])).toEqual(['Basic Install', 'Deep Insights', 'Auto Pilot']);
  });

  it.each([
    ['argo', 'argo', true], ['argo', 'arog', true], ['argo', 'arg', true], ['argo', 'argoo', true], ['argo', 'ergo', true], ['argo', 'erg', false], ['argo', 'gora', false],
  ])('%j and %j are similar: %s', (a, b, want) => {
    expect(isSimilar(a, b)).toBe(want);
  });
});
