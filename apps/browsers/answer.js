// SPDX-License-Identifier: Apache-2.0
// Made before the page's own scripts run, which cannot change it: by which every answer of a page comes, as JSON of a
// bounded length, so that no page can fill our memory; and no window comes above the one that is recorded.
(() => {
  const { stringify } = JSON;
  const longest = 1 << 20;
  const answer = (value) => {
    const text = stringify(value) ?? 'null';
    if (text.length > longest) throw new Error(`an answer of ${text.length} characters, ${longest} are allowed`);
    return text;
  };
  Object.defineProperty(globalThis, '__sojournAnswer', { value: answer });
  Object.defineProperty(globalThis, 'open', { value: () => null });
})();
