import { useSearchParams } from 'react-router';

import type { Chosen, Facet } from './search';

/** CatalogParameters is what a user searches, as the address of the page has it. */
export interface CatalogParameters {
  text: string;
  chosen: Chosen;
  isList: boolean;
  /** isOtherShown reports whether packages are shown that fit no node of the cluster. */
  isOtherShown: boolean;
  setText: (text: string) => void;
  setList: (isList: boolean) => void;
  setOtherShown: (isOtherShown: boolean) => void;
  toggle: (facet: string, value: string) => void;
  clear: () => void;
}

/** useCatalogParameters reads and changes the search in the address. Other parameters, such as the namespace, stay. */
export function useCatalogParameters(facets: readonly Facet[]): CatalogParameters {
  const [parameters, setParameters] = useSearchParams();
  const change = (edit: (next: URLSearchParams) => void) => {
    setParameters((before) => {
      const next = new URLSearchParams(before);
      edit(next);
      return next;
    }, { replace: true });
  };
  const set = (name: string, value: string) => {
    change((next) => {
      if (value === '') next.delete(name);
      else next.set(name, value);
    });
  };
  return {
    text: parameters.get('text') ?? '',
    chosen: readChosen(parameters, facets),
    isList: parameters.get('view') === 'list',
    isOtherShown: parameters.get('platform') === 'all',
    setText: (text) => { set('text', text); },
    setList: (isList) => { set('view', isList ? 'list' : ''); },
    setOtherShown: (isOtherShown) => { set('platform', isOtherShown ? 'all' : ''); },
    toggle: (facet, value) => {
      change((next) => {
        if (next.getAll(facet).includes(value)) next.delete(facet, value);
        else next.append(facet, value);
      });
    },
    clear: () => {
      change((next) => {
        for (const name of ['text', ...facets.map(({ key }) => key)]) next.delete(name);
      });
    },
  };
}

/** readChosen returns the chosen values of an address. */
export function readChosen(parameters: URLSearchParams, facets: readonly Facet[]): Chosen {
  return new Map(facets.map(({ key }) => [key, new Set(parameters.getAll(key))]));
}
