import { Alert, Button, EmptyState, EmptyStateActions, EmptyStateBody, EmptyStateFooter, SearchInput, Sidebar, SidebarContent, SidebarPanel, ToggleGroup, ToggleGroupItem, Toolbar, ToolbarContent, ToolbarItem } from '@patternfly/react-core';
import { ListIcon, ThIcon } from '@patternfly/react-icons';
import { useDeferredValue, useMemo } from 'react';

import { Filters } from './filters';
import { useCatalogParameters, type CatalogParameters } from './parameters';
import { facets as commonFacets, findPackages, type Facet, type PackageSummary } from './search';
import { Tiles, type Badge } from './tiles';

export interface CatalogViewProps {
  packages: readonly PackageSummary[];
  /** The badge of a package says how it is installed. It is undefined for those that are not, and without a cluster. */
  badgeOf?: (p: PackageSummary) => Badge | undefined;
}

/** CatalogView shows packages with a search and filters. Those that fit no node of the cluster are shown only on request. */
export function CatalogView({ packages, badgeOf }: CatalogViewProps) {
  const facets = useMemo(() => (badgeOf === undefined ? commonFacets : withClusterFacets(badgeOf)), [badgeOf]);
  const parameters = useCatalogParameters(facets);
  const { text, chosen, isList, isOtherShown } = parameters;
  const fitting = useMemo(() => packages.filter((p) => p.otherPlatform === undefined), [packages]);
  const listed = isOtherShown ? packages : fitting;
  // The words change with each key; the list may follow a moment later.
  const deferred = useDeferredValue(text);
  const chosenKey = JSON.stringify([...chosen].map(([key, values]) => [key, [...values]]));
  // eslint-disable-next-line react-hooks/exhaustive-deps -- chosen is a new map each time; chosenKey has its content
  const found = useMemo(() => findPackages(listed, deferred, chosen, facets), [listed, deferred, chosenKey, facets]);
  return (
    <Sidebar hasGutter>
      <SidebarPanel variant="sticky" width={{ default: 'width_100', lg: 'width_25' }}>
        <Filters facets={facets} counts={found.counts} chosen={chosen} onToggle={parameters.toggle} />
      </SidebarPanel>
      <SidebarContent hasNoBackground>
        <Search parameters={parameters} found={found.packages.length} all={listed.length} />
        <OtherPlatforms parameters={parameters} count={packages.length - fitting.length} />
        {found.isSimilar && <Alert isInline isPlain variant="info" title={`No package contains "${deferred}". These contain similar words.`} />}
        {found.packages.length === 0
          ? <Nothing parameters={parameters} />
          : <Tiles key={isList ? 'list' : 'tiles'} packages={found.packages} isList={isList} badgeOf={badgeOf} />}
      </SidebarContent>
    </Sidebar>
  );
}

/** withClusterFacets returns the filters that need a cluster before the others. */
function withClusterFacets(badgeOf: (p: PackageSummary) => Badge | undefined): readonly Facet[] {
  const installed: Facet = { key: 'installed', title: 'Installed', valuesOf: (p) => [badgeOf(p) === undefined ? 'No' : 'Yes'] };
  const installable: Facet = { key: 'installable', title: 'Can be installed here', valuesOf: (p) => [p.refusal === undefined ? 'Yes' : 'No'] };
  return [...commonFacets.slice(0, 2), installed, installable, ...commonFacets.slice(2)];
}

function Search({ parameters: { text, setText, isList, setList }, found, all }: { parameters: CatalogParameters; found: number; all: number }) {
  return (
    <Toolbar>
      <ToolbarContent>
        <ToolbarItem>
          <SearchInput aria-label="Search packages" placeholder="Search" value={text} onChange={(_event, value) => { setText(value); }} onClear={() => { setText(''); }} />
        </ToolbarItem>
        <ToolbarItem>
          <ToggleGroup aria-label="How to show packages">
            <ToggleGroupItem icon={<ThIcon />} aria-label="Tiles" isSelected={!isList} onChange={() => { setList(false); }} />
            <ToggleGroupItem icon={<ListIcon />} aria-label="List" isSelected={isList} onChange={() => { setList(true); }} />
          </ToggleGroup>
        </ToolbarItem>
        <ToolbarItem alignSelf="center"><span role="status">{found === all ? `${all} packages` : `${found} of ${all} packages`}</span></ToolbarItem>
      </ToolbarContent>
    </Toolbar>
  );
}

/** OtherPlatforms says how many packages fit no node of the cluster, and shows or hides them. */
function OtherPlatforms({ parameters: { isOtherShown, setOtherShown }, count }: { parameters: CatalogParameters; count: number }) {
  if (count === 0) return null;
  const packages = count === 1 ? '1 package is' : `${count} packages are`;
  return (
    <p className="mainstay-message mainstay-other-platforms">
      {isOtherShown ? `${packages} for another platform than the nodes of this cluster have.` : `${packages} not shown, because no node of this cluster has a matching architecture and operating system.`}
      {' '}<Button variant="link" isInline onClick={() => { setOtherShown(!isOtherShown); }}>{isOtherShown ? 'Hide' : 'Show'} {count === 1 ? 'it' : 'them'}</Button>
    </p>
  );
}

function Nothing({ parameters: { text, chosen, clear } }: { parameters: CatalogParameters }) {
  const active = [text === '' ? '' : `"${text}"`, ...[...chosen.values()].flatMap((values) => [...values])].filter((word) => word !== '');
  return (
    <EmptyState titleText="No package matches" headingLevel="h2">
      <EmptyStateBody>{active.length === 0 ? 'The catalogs have no packages for this cluster.' : `Nothing matches ${active.join(', ')}.`}</EmptyStateBody>
      {active.length > 0 && (
        <EmptyStateFooter><EmptyStateActions><Button variant="link" onClick={clear}>Clear all filters</Button></EmptyStateActions></EmptyStateFooter>
      )}
    </EmptyState>
  );
}
