import { describe, expect, it } from 'vitest';

import { formatDuration } from './data';

describe('durations', () => {
  it.each([['1h2m3.5s', '1 h 2 min'], ['59.9s', '59 s'], ['2m0s', '2 min'], ['-1h0m0s', '-1 h'], ['0s', '0 s'], ['?', '?']])('%s is %s', (text, words) => {
    expect(formatDuration(text)).toBe(words);
  });
});
