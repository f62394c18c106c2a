import { Badge, Button, Checkbox, ExpandableSection, Stack, StackItem } from '@patternfly/react-core';
import { useId, useState } from 'react';

import { sortValues, type Chosen, type Facet, type Found } from './search';

/** The number of values of a facet that are shown at first. */
const shortLength = 6;

export interface FiltersProps {
  facets: readonly Facet[];
  counts: Found['counts'];
  chosen: Chosen;
  onToggle: (facet: string, value: string) => void;
}

/** Filters shows the values of the facets with the number of packages. Facets with one value or none are left out. */
export function Filters({ facets, counts, chosen, onToggle }: FiltersProps) {
  const isWide = window.matchMedia('(min-width: 992px)').matches;
  const [isExpanded, setExpanded] = useState(isWide);
  const active = [...chosen.values()].reduce((sum, values) => sum + values.size, 0);
  return (
    <ExpandableSection toggleText={active === 0 ? 'Filters' : `Filters (${active})`} isExpanded={isExpanded} onToggle={(_event, expanded) => { setExpanded(expanded); }}>
      <Stack hasGutter>
        {facets.map((facet) => (
          <FacetValues key={facet.key} facet={facet} counts={counts.get(facet.key) ?? new Map<string, number>()} chosen={chosen.get(facet.key) ?? new Set<string>()} onToggle={(value) => { onToggle(facet.key, value); }} />
        ))}
      </Stack>
    </ExpandableSection>
  );
}

interface FacetValuesProps {
  facet: Facet;
  counts: ReadonlyMap<string, number>;
  chosen: ReadonlySet<string>;
  onToggle: (value: string) => void;
}

function FacetValues({ facet, counts, chosen, onToggle }: FacetValuesProps) {
  const id = useId();
  const [isLong, setLong] = useState(false);
  const values = sortValues(facet, new Set([...counts.keys(), ...chosen]));
  if (values.length < 2 && chosen.size === 0) return null;

  const shown = isLong ? values : values.filter((value, index) => index < shortLength || chosen.has(value));
  return (
    <StackItem>
      <fieldset aria-labelledby={id} className="mainstay-facet">
        <legend id={id}>{facet.title}</legend>
        {shown.map((value, index) => (
          <Checkbox
            key={value} id={`${id}-${index}`} isChecked={chosen.has(value)} onChange={() => { onToggle(value); }}
            label={<>{value} <Badge isRead screenReaderText="packages">{counts.get(value) ?? 0}</Badge></>}
          />
        ))}
        {values.length > shown.length && <Button variant="link" isInline onClick={() => { setLong(true); }}>Show {values.length - shown.length} more</Button>}
      </fieldset>
    </StackItem>
  );
}
