import { Button, List, ListItem } from '@patternfly/react-core';
import { useState } from 'react';

import type { Schemas } from '../../api/client';
import { Facts } from '../../components/details';
import type { Hint } from '../../components/schemaform/descriptors';
import { formatScalar, getAt } from '../../components/schemaform/schema';
import { formatYaml, isRecord } from '../../components/yamltext';
import { mask, sortHints } from './shared';

/** DescribedFacts shows the fields of an object that its operator describes. */
export function DescribedFacts({ descriptors, value }: { descriptors: readonly Schemas['OperandDescriptor'][]; value: unknown }) {
  const shown = sortHints(descriptors).filter(({ widgets, path }) => !widgets.has('conditions') && getAt(value, path) !== undefined);
  return <Facts facts={shown.map((hint) => [hint.displayName ?? hint.path.join('.'), <FieldValue key={hint.order} hint={hint} value={getAt(value, hint.path)} />] as const)} />;
}

/** FieldValue shows a value as a descriptor wants it. */
export function FieldValue({ hint: { widgets }, value }: { hint: Hint; value: unknown }) {
  if (widgets.has('password')) return <SecretValue value={formatScalar(value)} />;
  if (widgets.has('podStatuses') && isRecord(value)) return <PodStatuses statuses={value} />;
  if (widgets.has('link') && typeof value === 'string' && isWebAddress(value)) return <a href={value} target="_blank" rel="noreferrer noopener">{value}</a>;
  if (typeof value === 'boolean') return value ? 'Yes' : 'No';
  if (typeof value === 'object' && value !== null) return <pre className="mainstay-text">{formatYaml(value)}</pre>;
  return <span className={widgets.has('reason') ? 'mainstay-text' : undefined}>{formatScalar(value)}</span>;
}

/** isWebAddress reports whether a text is an address that a browser may open. Others, such as javascript:, come from hostile objects. */
export function isWebAddress(text: string): boolean {
  return /^https?:\/\//i.test(text) && URL.canParse(text);
}

function SecretValue({ value }: { value: string }) {
  const [isShown, setShown] = useState(false);
  return <>{isShown ? value : mask} <Button variant="link" isInline onClick={() => { setShown(!isShown); }}>{isShown ? 'Hide' : 'Show'}</Button></>;
}

/** PodStatuses shows a map from the state of pods to their names. */
function PodStatuses({ statuses }: { statuses: Record<string, unknown> }) {
  return (
    <List isPlain>
      {Object.entries(statuses).map(([state, pods]) => {
        const names = Array.isArray(pods) ? pods.map(formatScalar) : [];
        return <ListItem key={state}>{state}: {names.length}{names.length > 0 && <span className="mainstay-message"> ({names.join(', ')})</span>}</ListItem>;
      })}
    </List>
  );
}
