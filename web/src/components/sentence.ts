/** asSentence returns a text with a capital letter at its beginning, where that does not change a name. */
export function asSentence(text: string): string {
  return /^[a-z]+(?=\s|$)/.test(text) ? text.charAt(0).toUpperCase() + text.slice(1) : text;
}
