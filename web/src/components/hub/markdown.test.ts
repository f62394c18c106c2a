import { describe, expect, it } from 'vitest';

import { toSafeHTML } from './markdown';

describe('descriptions', () => {
  it('keep their structure', () => {
    expect(toSafeHTML('# Title\n\n* **one**\n\n| a |\n|---|\n| b |')).toMatch(/<h1>Title<\/h1>[^]*<li><strong>one<\/strong><\/li>[^]*<td>b<\/td>/);
  });

  it('open links to other sites in a tab of their own', () => {
    expect(toSafeHTML('[docs](https://example.com/a)')).toContain('<a href="https://example.com/a" target="_blank" rel="noopener noreferrer nofollow">docs</a>');
  });

  it.each([
    '<script>alert(1)</script>', '<img src=x onerror=alert(1)>', '![x](https://example.com/track.png)', '[a](javascript:alert(1))', '[a](JaVaScRiPt:alert(1))',
    '<a href="data:text/html,<script>alert(1)</script>">a</a>', '<svg onload=alert(1)><a xlink:href="javascript:alert(1)">x</a></svg>', '<iframe src="https://example.com"></iframe>',
    '<form action="https://example.com"><input name=a></form>', '<p style="position:fixed" onclick="alert(1)" id="root" class="x">a</p>', '<math><mi xlink:href="javascript:alert(1)">x</mi></math>',
    '<style>@import "https://example.com"</style>', '[a](//example.com)', '<a href="/api/v1/session">x</a>', '<base href="https://example.com">', '<meta http-equiv="refresh" content="0;url=https://example.com">',
  ])('make %s harmless', (text) => {
    const tree = new DOMParser().parseFromString(toSafeHTML(text), 'text/html');
    expect(tree.querySelectorAll('script, img, svg, math, iframe, form, input, style, base, meta, [src], [style], [id], [class], [href]')).toHaveLength(0);
    expect([...tree.body.querySelectorAll('*')].flatMap((element) => [...element.attributes]).map(({ name }) => name)).toEqual([]);
  });
});
