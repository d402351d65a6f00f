// SPDX-License-Identifier: Apache-2.0
// Returns what a meeting's page shows now, as a plain object. apps/meeting.py calls it with the known selectors and patterns
// of the site's pages (MeetingPage) and with `inside` and `waits`, which query the page's own scripts. The element to press
// next gets the attribute data-sojourn.
(site, inside, waits) => {
  const visible = (element) => {
    const { width, height } = element.getBoundingClientRect();
    return width > 0 && height > 0;
  };
  const all = (selector) => (selector ? [...document.querySelectorAll(selector)].filter(visible) : []);
  const plain = (text) => (text || '').replace(/[‘’]/g, "'");
  const words = (text) => plain(text).replace(/\s+/g, ' ').trim().slice(0, 160);
  const text = plain(document.body?.innerText);
  const line = (pattern) => words(text.match(new RegExp(`.*(?:${pattern}).*`, 'i'))?.[0]);
  const named = (element) => words(element.getAttribute('aria-label') || element.innerText);
  const free = (element) => !element.disabled && element.getAttribute('aria-disabled') !== 'true';
  const said = new RegExp(`^(?:${site.words.join('|') || '(?!)'})(?!\\w)`, 'i'); // without words, none matches
  const button = site.press.flatMap(all).find(free) ||
    all('button, [role=button]').find((element) => free(element) && said.test(named(element)));
  for (const old of document.querySelectorAll('[data-sojourn=press]')) old.removeAttribute('data-sojourn');
  button?.setAttribute('data-sojourn', 'press');
  const captcha = all('iframe[src*="captcha" i]').length ? 'captcha' : '';
  const [refused, advice] = Object.entries(site.refused)
    .map(([pattern, advice]) => [line(pattern) || captcha.match(new RegExp(pattern, 'i'))?.[0] || '', advice])
    .find(([found]) => found) || ['', ''];
  const call = window.__sojourn;
  return {
    secure: window.isSecureContext,
    unnamed: all(site.guest).some(({ value }) => !value),
    secret: all(site.secret).length > 0,
    press: button ? named(button) || 'a button without a name' : '',
    lobby: site.lobby.map(line).find(Boolean) || (waits() ? words(text) || 'nothing' : ''),
    refused,
    advice,
    receives: Boolean(call?.receives),
    inside: Boolean(inside() || call?.state().includes('connected') || all(site.leave).length),
    shown: words(text),
  };
}
