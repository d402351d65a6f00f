// SPDX-License-Identifier: Apache-2.0
// What a meeting's page shows right now, asked by apps/meeting.py with what is known of the site's pages (Site): a
// function that returns a plain object. What is to be pressed next gets the attribute data-sojourn.
(site) => {
  const visible = (element) => {
    const { width, height } = element.getBoundingClientRect();
    return width > 0 && height > 0;
  };
  const all = (selector) => (selector ? [...document.querySelectorAll(selector)].filter(visible) : []);
  const words = (text) => (text || '').replace(/[‘’]/g, "'").replace(/\s+/g, ' ').trim().slice(0, 160);
  const text = (document.body?.innerText || '').replace(/[‘’]/g, "'");
  const line = (pattern) => (pattern ? words(text.match(new RegExp(`.*(?:${pattern}).*`, 'i'))?.[0]) : '');
  const named = (element) => words(element.getAttribute('aria-label') || element.innerText);
  const free = (element) => !element.disabled && element.getAttribute('aria-disabled') !== 'true';
  const said = new RegExp(`^(?:${site.words || '(?!)'})$`, 'i'); // without words none
  const button = site.press.flatMap(all).find(free) ||
    all('button, [role=button]').find((element) => free(element) && said.test(named(element)));
  for (const old of document.querySelectorAll('[data-sojourn]')) old.removeAttribute('data-sojourn');
  button?.setAttribute('data-sojourn', 'press');
  const lobby = line(site.lobby);
  const connected = Boolean(window.__sojourn?.state().includes('connected'));
  return {
    secure: window.isSecureContext,
    unnamed: all(site.guest).some(({ value }) => !value),
    press: button ? named(button) || 'a button without a name' : '',
    lobby,
    refused: line(site.refused),
    joined: !lobby && (connected || all(site.leave).length > 0), // some lobbies can be left too
    shown: words(text),
  };
}
