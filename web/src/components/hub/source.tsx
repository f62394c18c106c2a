import { createContext, useContext } from 'react';

/** Site is where the pages of the catalog are shown: in the console, or as a static site. */
export interface Site {
  /** iconAddress returns the address of an icon. */
  iconAddress: (icon: string) => string;
}

const SiteContext = createContext<Site>({ iconAddress: (icon) => `/api/v1/icons/${icon}` });

/** SiteProvider says where the pages are shown. Without it, they are shown in the console. */
export const SiteProvider = SiteContext;

/** useSite returns where the pages are shown. */
export function useSite(): Site {
  return useContext(SiteContext);
}

/** packagePath returns the address of the page of a package. */
export function packagePath({ catalog, name }: { catalog: string; name: string }): string {
  return `/catalog/${encodeURIComponent(catalog)}/${encodeURIComponent(name)}`;
}
