import { Timestamp, TimestampTooltipVariant } from '@patternfly/react-core';
import { useSyncExternalStore } from 'react';

const tick = 10_000;

/** useNow returns the time in milliseconds. It changes every ten seconds. */
function useNow(): number {
  return useSyncExternalStore(
    (onChange) => {
      const timer = setInterval(onChange, tick);
      return () => { clearInterval(timer); };
    },
    () => Math.floor(Date.now() / tick) * tick,
  );
}

/** Age shows how long ago something happened, with the time in a tooltip. */
export function Age({ time }: { time: string | undefined }) {
  const now = useNow();
  if (time === undefined) return <>–</>;
  const date = new Date(time);
  return <Timestamp date={date} tooltip={{ variant: TimestampTooltipVariant.default }}>{formatAge(now - date.getTime())}</Timestamp>;
}

const units: readonly [number, string][] = [[86_400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];

/** formatAge returns a duration in milliseconds in its largest unit, such as "3 h ago". */
export function formatAge(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000);
  for (const [length, unit] of units) {
    if (seconds >= length) return `${Math.floor(seconds / length)} ${unit} ago`;
  }
  return 'now';
}
