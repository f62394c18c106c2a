import type { Schemas } from '../../api/client';

export type PackageSummary = Schemas['PackageSummary'];

/** Facet is a filter: the values of a package, of which a user chooses some. */
export interface Facet {
  key: string;
  title: string;
  valuesOf: (p: PackageSummary) => readonly string[];
  /** The order of the values. Without one, they are sorted by name. */
  order?: readonly string[];
}

export const capabilityLevels = ['Basic Install', 'Seamless Upgrades', 'Full Lifecycle', 'Deep Insights', 'Auto Pilot'] as const;

/** The facets of a catalog, the most used first. */
export const facets: readonly Facet[] = [
  { key: 'catalog', title: 'Catalog', valuesOf: (p) => [p.catalog.replace(':', '/')] },
  { key: 'category', title: 'Category', valuesOf: (p) => p.categories ?? [] },
  { key: 'provider', title: 'Provider', valuesOf: (p) => (p.provider === undefined ? [] : [p.provider]) },
  { key: 'capability', title: 'Capability level', valuesOf: (p) => (p.capability === undefined ? [] : [p.capability]), order: capabilityLevels },
  { key: 'feature', title: 'Infrastructure features', valuesOf: (p) => p.features ?? [] },
  { key: 'mode', title: 'Install mode', valuesOf: (p) => p.installModes ?? [] },
  { key: 'architecture', title: 'Architecture', valuesOf: (p) => p.architectures ?? [] },
  { key: 'subscription', title: 'Valid subscription', valuesOf: (p) => p.validSubscriptions ?? [] },
  { key: 'deprecated', title: 'Deprecated', valuesOf: (p) => [p.deprecated === undefined ? 'No' : 'Yes'] },
];

/** Chosen are the chosen values by the key of their facet. */
export type Chosen = ReadonlyMap<string, ReadonlySet<string>>;

/** Found is the result of a search. */
export interface Found {
  packages: PackageSummary[];
  /** The number of packages by facet and value that a further choice of the value would find. */
  counts: ReadonlyMap<string, ReadonlyMap<string, number>>;
  /** Nothing contains the words as they are, and the packages contain similar ones. */
  isSimilar: boolean;
}

/** findPackages returns the packages that contain every word of a text and have a chosen value of each facet, the best matches first. */
export function findPackages(packages: readonly PackageSummary[], text: string, chosen: Chosen, all: readonly Facet[] = facets): Found {
  const words = splitWords(text);
  let matches = rankPackages(packages, words, scoreWord);
  let isSimilar = false;
  if (matches.length === 0 && words.length > 0) {
    matches = rankPackages(packages, words, scoreSimilarWord);
    isSimilar = matches.length > 0;
  }

  const missed = matches.map((p) => all.filter((facet) => !hasChosenValue(p, facet, chosen)));
  const counts = new Map(all.map((facet) => [facet.key, countValues(matches.filter((_p, index) => missed[index]?.every((other) => other === facet) ?? false), facet)]));
  return { packages: matches.filter((_p, index) => missed[index]?.length === 0), counts, isSimilar };
}

function hasChosenValue(p: PackageSummary, facet: Facet, chosen: Chosen): boolean {
  const wanted = chosen.get(facet.key);
  return wanted === undefined || wanted.size === 0 || facet.valuesOf(p).some((value) => wanted.has(value));
}

function countValues(packages: readonly PackageSummary[], facet: Facet): Map<string, number> {
  const counts = new Map<string, number>();
  for (const p of packages) {
    for (const value of facet.valuesOf(p)) counts.set(value, (counts.get(value) ?? 0) + 1);
  }
  return counts;
}

/** sortValues returns the values of a facet in the order in which they are shown. */
export function sortValues(facet: Facet, values: Iterable<string>): string[] {
  const rank = (value: string) => facet.order?.indexOf(value) ?? 0;
  return [...values].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b, 'en', { numeric: true }));
}

/** SearchText has the texts of a package in the form in which they are compared. */
interface SearchText {
  names: string[];
  nameWords: string[];
  terms: string[];
  rest: string;
}

const texts = new WeakMap<PackageSummary, SearchText>();

function textOf(p: PackageSummary): SearchText {
  const known = texts.get(p);
  if (known !== undefined) return known;

  const names = [p.name, p.displayName ?? ''].map((name) => name.toLowerCase());
  const made = {
    names,
    nameWords: names.flatMap(splitWords),
    terms: [...(p.keywords ?? []), ...(p.kinds ?? []), ...(p.categories ?? []), p.provider ?? ''].flatMap((term) => [term.toLowerCase(), ...splitWords(term)]),
    rest: (p.description ?? '').toLowerCase(),
  };
  texts.set(p, made);
  return made;
}

function splitWords(text: string): string[] {
  return text.toLowerCase().split(/[\s\-_./,&()]+/).filter((word) => word !== '');
}

type Score = (text: SearchText, word: string) => number;

/** rankPackages returns the packages in which every word scores, the highest sum first. Equal ones keep their order. */
function rankPackages(packages: readonly PackageSummary[], words: readonly string[], score: Score): PackageSummary[] {
  if (words.length === 0) return [...packages];

  const whole = words.join(' ');
  const ranked: { p: PackageSummary; total: number }[] = [];
  for (const p of packages) {
    const text = textOf(p);
    const scores = words.map((word) => score(text, word));
    if (scores.some((s) => s === 0)) continue;
    const isName = text.names.some((name) => splitWords(name).join(' ') === whole);
    ranked.push({ p, total: scores.reduce((sum, s) => sum + s, isName ? 1000 : 0) });
  }
  return ranked.sort((a, b) => b.total - a.total).map(({ p }) => p);
}

function scoreWord({ names, nameWords, terms, rest }: SearchText, word: string): number {
  if (nameWords.includes(word)) return 100;
  if (nameWords.some((name) => name.startsWith(word))) return 60;
  if (names.some((name) => name.includes(word))) return 40;
  if (terms.includes(word)) return 20;
  if (terms.some((term) => term.startsWith(word))) return 10;
  return rest.includes(word) ? 2 : 0;
}

/** scoreSimilarWord accepts a word with one error: a letter too many, too few, or another one, or two letters swapped. */
function scoreSimilarWord(text: SearchText, word: string): number {
  const exact = scoreWord(text, word);
  if (exact > 0 || word.length < 4) return exact;
  if (text.nameWords.some((name) => isSimilar(name, word))) return 5;
  return text.terms.some((term) => isSimilar(term, word)) ? 1 : 0;
}

/** isSimilar reports whether one edit turns a word into the other. */
export function isSimilar(a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 1) return false;
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start++;
  const rest = [a.slice(start), b.slice(start)] as const;
  const [x, y] = rest;
  return x.slice(1) === y.slice(1) || x.slice(1) === y || x === y.slice(1) || (x.slice(2) === y.slice(2) && x[0] === y[1] && x[1] === y[0]);
}
