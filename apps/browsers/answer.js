// SPDX-License-Identifier: Apache-2.0
// Runs before the page's own scripts, which cannot change it. Every answer of a page passes through it as JSON of bounded
// length, so that no page can fill Sojourn's memory; and it keeps windows from opening above the recorded one.
(() => {
  const { stringify } = JSON;
  const longest = 1 << 20;
  const answer = (value) => {
    const text = stringify(value) ?? 'null';
    if (text.length > longest) throw new Error(`an answer of ${text.length} characters; at most ${longest} are allowed`);
    return text;
  };
  Object.defineProperty(globalThis, '__sojournAnswer', { value: answer });
  Object.defineProperty(globalThis, 'open', { value: () => null });
})();
