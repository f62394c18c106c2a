/** LinkedText shows a text of the cluster, in which addresses of pages are links. */
export function LinkedText({ text }: { text: string }) {
  return (
    <span className="mainstay-text">
      {splitLinks(text).map(({ value, isLink }, index) => (
        isLink ? <a key={index} href={value} target="_blank" rel="noreferrer">{value}</a> : value
      ))}
    </span>
  );
}

/** splitLinks splits a text into addresses of pages and what is between them. */
export function splitLinks(text: string): { value: string; isLink: boolean }[] {
  return text.split(/(https?:\/\/[^\s<>"']*[^\s<>"'.,;:!?)\]])/).filter((part) => part !== '').map((value) => ({ value, isLink: /^https?:\/\//.test(value) }));
}
