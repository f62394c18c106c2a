import { describe, expect, it } from 'vitest';

import { splitLinks } from './linkedtext';

describe('links in texts', () => {
  it.each([
    ['no link', []],
    ['see https://a.example.com/b?c=d#e.', ['https://a.example.com/b?c=d#e']],
    ['(https://a.example.com/b), http://c.example.com!', ['https://a.example.com/b', 'http://c.example.com']],
    ['javascript:alert(1) and data:text/html,x', []],
  ])('are found in %j', (text, links) => {
    const parts = splitLinks(text);
    expect(parts.filter((part) => part.isLink).map((part) => part.value)).toEqual(links);
    expect(parts.map((part) => part.value).join('')).toBe(text);
  });
});
