// SPDX-License-Identifier: Apache-2.0
// Saves what a page shows, to diagnose why it does not play. shown.py runs it in an isolated world and pauses the page's
// own scripts meanwhile. It removes every secret and all typed text from the page, so that no screenshot shows them, and
// returns the page as HTML: elements, the attributes that identify them, and texts; no script, no style, no value, and
// no address beyond its path.
(secrets, longest) => {
  const KEPT = /^(id|class|role|type|name|for|title|alt|placeholder|hidden|disabled|checked|open|lang|jsname|aria-[\w-]+|data-(tid|testid|test-id|state))$/;
  const PLACES = /^(href|src|action)$/;
  const LOADS = /^(href|src|srcset|srcdoc|data|action|poster)$/; // not visible; setting one would load content without inspection
  const LEFT_OUT = /^(SCRIPT|STYLE|NOSCRIPT|TEMPLATE|META|LINK|BASE)$/i;
  const EMPTY = /^(AREA|BR|COL|EMBED|HR|IMG|INPUT|SOURCE|TRACK|WBR)$/;
  const DEEPEST = 256;
  const MOST = 100000; // a page with more nodes is not saved: unvisited nodes are not redacted
  const patterns = secrets.map((secret) => new RegExp(secret.replace(/[^\w\s]/gu, '\\$&'), 'gi'));
  const hidden = (text) => patterns.reduce((rest, pattern) => rest.replace(pattern, '…'), text);
  const quoted = (text) => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  const path = (address) => {
    try {
      const { origin, pathname } = new URL(address, location.href);
      return origin === 'null' ? '' : origin + pathname;
    } catch {
      return '';
    }
  };

  const parts = [];
  let length = 0;
  let nodes = 0;
  const say = (text) => {
    length += text.length;
    if (length <= longest) parts.push(text);
  };
  const clean = (element) => {
    if (element.matches('input, textarea, select') && !element.matches('[type=button], [type=submit]')) {
      element.value = '';
      element.removeAttribute('value');
    }
    if (element.matches('textarea, [contenteditable]')) element.textContent = '';
    for (const { name, value } of [...element.attributes]) {
      const said = hidden(value);
      if (said !== value && !LOADS.test(name)) element.setAttribute(name, said);
    }
  };
  const loaded = ({ contentDocument: content, src, srcdoc }) =>
    content?.readyState === 'complete' && (content.URL !== 'about:blank' || !(srcdoc || src));
  const attributes = (element) => [...element.attributes].map(({ name, value }) => {
    if (KEPT.test(name)) return ` ${name}="${quoted(value)}"`;
    return PLACES.test(name) ? ` ${name}="${quoted(hidden(path(hidden(value))))}"` : '';
  }).join('');
  const walk = (node, depth) => {
    if (depth > DEEPEST) throw new RangeError(`deeper than ${DEEPEST}`);
    for (const child of [...node.childNodes]) {
      if (++nodes > MOST) throw new RangeError(`more than ${MOST} nodes`);
      if (child.nodeType === Node.TEXT_NODE) {
        const said = hidden(child.data);
        if (said !== child.data) child.data = said;
        say(quoted(said));
      } else if (child.nodeType === Node.ELEMENT_NODE) {
        const name = child.nodeName.toLowerCase();
        clean(child);
        if (LEFT_OUT.test(name)) continue;
        say(`<${name}${attributes(child)}>`);
        if (child.shadowRoot) walk(child.shadowRoot, depth + 1);
        if (child.contentDocument) walk(child.contentDocument, depth + 1);
        // Content that cannot be inspected, or is still to come.
        if (name === 'iframe' && secrets.length && !loaded(child)) child.style.visibility = 'hidden';
        walk(child, depth + 1);
        if (!EMPTY.test(child.nodeName)) say(`</${name}>`);
      }
    }
  };
  say(`<!doctype html><meta charset="utf-8"><!-- ${quoted(hidden(path(location.href)))} -->`);
  if (document.documentElement) walk(document, 0);
  if (length > longest) parts.push(`<!-- ${length - longest} more characters are omitted -->`);
  return parts.join('');
}
