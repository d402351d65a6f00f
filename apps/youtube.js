// SPDX-License-Identifier: Apache-2.0
// Returns what a watch page shows now, as a plain object. apps/youtube.py calls it with the known selectors of the page
// (WatchPage).
(site) => {
  const visible = (selector) =>
    [...document.querySelectorAll(selector)].find((element) => element.getClientRects().length) || null;
  const words = (selector) => (visible(selector)?.textContent || '').replace(/\s+/g, ' ').trim();
  const player = document.querySelector('#movie_player');
  const video = (player || document).querySelector('video');
  return {
    consent: location.hostname.startsWith('consent.') || Boolean(visible(site.consent_shown)),
    ad: Boolean(player && (player.classList.contains('ad-showing') || player.classList.contains('ad-interrupting'))),
    playing: Boolean(video && !video.paused && !video.ended && video.readyState > 2 && video.currentTime > 0),
    paused: Boolean(video && video.paused),
    time: video ? video.currentTime : 0,
    player: Boolean(player && player.getPlaybackQuality),
    fullscreen: Boolean(document.fullscreenElement),
    error: window.playerError || (video && video.error && video.error.message) || words(site.error),
    shown: (document.body?.innerText || '').replace(/\s+/g, ' ').trim().slice(0, 1000),
  };
}
