// SPDX-License-Identifier: Apache-2.0
// What a television page shows right now, asked by apps/iptv.py: a function that returns a plain object.
() => {
  const visible = (element) => Boolean(element.getClientRects().length);
  const words = (text) => (text || '').replace(/\s+/g, ' ').trim().slice(0, 200);
  const videos = [...document.querySelectorAll('video')];
  const text = document.body?.innerText || '';
  // English and Czech: "Your session has expired", "Platnost přihlášení vypršela".
  const expired = /[^.\n]*\b(session|token|login|přihlášení|relace|platnost)[^.\n]{0,60}(expired|invalid|vypršel)[^.\n]*/i;
  return {
    login: [...document.querySelectorAll('input[type=password]')].some(visible),
    expired: words(text.match(expired)?.[0]),
    refused: words([...document.querySelectorAll('[role=alert], .error, .alert')].filter(visible)[0]?.textContent),
    error: words(String(window.playerError || '')),
    video: videos.length > 0,
    paused: videos.length > 0 && videos.every((video) => video.paused),
    playing: videos.some((v) => !v.paused && !v.ended && v.readyState > 2 && v.currentTime > 0),
  };
}
