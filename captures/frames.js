// SPDX-License-Identifier: Apache-2.0
// Logs every frame that the page's video presents: what a recording of the screen would show (captures/player.js drains it).
(() => {
  'use strict';
  if (window !== window.top || !window.__sojourn) return;
  const { keep } = window.__sojourn;
  const followed = new WeakSet();

  const follow = (video) => {
    const note = (_, { expectedDisplayTime, mediaTime, height, presentedFrames }) => {
      const t = Math.round((performance.timeOrigin + expectedDisplayTime) * 1e3) / 1e6;
      keep({ t, event: 'frame', detail: [mediaTime, height, presentedFrames] });
      video.requestVideoFrameCallback(note);
    };
    video.requestVideoFrameCallback(note);
  };

  // Media events do not bubble, but they can be captured on their way down.
  document.addEventListener('loadstart', ({ target }) => {
    if (!(target instanceof HTMLVideoElement) || followed.has(target)) return;
    followed.add(target);
    follow(target);
  }, true);
})();
