// SPDX-License-Identifier: Apache-2.0
// Returns what a television page shows now, as a plain object. apps/iptv.py calls it with the known selectors and patterns
// of such pages (TelevisionPage).
(site) => {
  const visible = (element) => Boolean(element.getClientRects().length);
  const words = (text) => (text || '').replace(/\s+/g, ' ').trim().slice(0, 200);
  const videos = [...document.querySelectorAll('video')];
  const text = document.body?.innerText || '';
  const line = (pattern) => words(text.match(new RegExp(`[^.\\n]*(?:${pattern})[^.\\n]*`, 'i'))?.[0]);
  const any = (selector) => [...document.querySelectorAll(selector)].find(visible);
  return {
    login: Boolean(any(site.password)),
    asks: Boolean(any(site.user_first)),
    expired: line(site.expired),
    refused: words(any(site.said)?.textContent),
    locked: window.__sojourn?.locked || line(site.protected),
    error: words(String(window.playerError || '')),
    video: videos.length > 0,
    paused: videos.length > 0 && videos.every((video) => video.paused),
    playing: videos.some((v) => !v.paused && !v.ended && v.readyState > 2 && v.currentTime > 0),
  };
}
