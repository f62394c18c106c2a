import DOMPurify from 'dompurify';
import { marked } from 'marked';

const tags = [
  'a', 'b', 'blockquote', 'br', 'code', 'del', 'dd', 'dl', 'dt', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'i', 'kbd', 'li', 'ol', 'p', 'pre', 's', 'strong',
  'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul',
];

const purifier = DOMPurify(window);

// Links lead to other sites: they open in a tab that cannot reach this one, and do not tell it the address. Headings follow those of the page.
purifier.addHook('afterSanitizeAttributes', (node) => {
  if (node.nodeName !== 'A') return;
  if (!/^https?:\/\//i.test(node.getAttribute('href') ?? '')) {
    node.removeAttribute('href');
    return;
  }
  node.setAttribute('target', '_blank');
  node.setAttribute('rel', 'noopener noreferrer nofollow');
});

/** toSafeHTML returns Markdown of a catalog as HTML without scripts, styles, images, forms, and attributes other than links. */
export function toSafeHTML(markdown: string): string {
  const html = marked.parse(markdown, { async: false, gfm: true });
  return purifier.sanitize(html, { ALLOWED_TAGS: tags, ALLOWED_ATTR: ['href', 'align', 'start'], ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false });
}
