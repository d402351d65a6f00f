// SPDX-License-Identifier: Apache-2.0
// Watches the page's player: a sample every 250 ms and every event of its video element, kept until drained.
(() => {
  'use strict';
  if (window !== window.top || window.__sojourn) return;
  const LIMIT = 20000; // lines kept while nothing drains
  const lines = [];
  let waiting = false;
  let quality = null;
  let ad = false;

  const now = () => Math.round((performance.timeOrigin + performance.now()) * 1e3) / 1e6;
  const keep = (line) => { if (lines.push(line) > LIMIT) lines.shift(); };
  const area = ({ clientWidth, clientHeight }) => clientWidth * clientHeight;
  const largest = (videos) => [...videos].reduce((most, video) => (most && area(most) >= area(video) ? most : video), null);
  const find = () => {
    const player = document.querySelector('#movie_player');
    const { video } = window.__sojourn; // in a call, captures/call.js selects the element
    return [player, video ? video() : largest((player || document).querySelectorAll('video'))];
  };

  const ahead = (video) => {
    const { buffered, currentTime } = video;
    for (let i = 0; i < buffered.length; i++) {
      if (buffered.start(i) <= currentTime + 0.1 && currentTime <= buffered.end(i)) return buffered.end(i) - currentTime;
    }
    return 0;
  };

  // The picture's position on the screen in pixels: x, y, width, height; without bars that the element adds.
  const place = (video) => {
    const box = video.getBoundingClientRect();
    const fitted = !['fill', 'cover'].includes(getComputedStyle(video).objectFit) && video.videoHeight;
    const scale = Math.min(box.width / video.videoWidth, box.height / video.videoHeight);
    const [width, height] = fitted ? [video.videoWidth * scale, video.videoHeight * scale] : [box.width, box.height];
    const left = window.screenX + box.left + (box.width - width) / 2;
    const top = window.screenY + window.outerHeight - window.innerHeight + box.top + (box.height - height) / 2;
    return [left, top, width, height].map((length) => Math.round(length * window.devicePixelRatio));
  };

  const sample = () => {
    const [player, video] = find();
    if (!video) return;
    const frames = video.getVideoPlaybackQuality();
    const showing = ['ad-showing', 'ad-interrupting'].some((name) => player?.classList.contains(name));
    if (showing !== ad) keep({ t: now(), event: 'ad', detail: (ad = showing) });
    const rows = video.videoHeight ? `${video.videoHeight}p` : 'unknown'; // if the page has no name for it
    const named = (player && player.getPlaybackQuality && player.getPlaybackQuality()) || rows;
    if (named !== quality) {
      if (quality !== null) keep({ t: now(), event: 'qualitychange', detail: { from: quality, to: named } });
      quality = named;
    }
    keep({
      t: now(),
      playing: !video.paused && !video.ended && video.readyState > 2,
      quality: named,
      width: video.videoWidth,
      height: video.videoHeight,
      place: place(video),
      currentTime: video.currentTime,
      buffer: Math.round(ahead(video) * 1e3) / 1e3,
      readyState: video.readyState,
      totalFrames: frames.totalVideoFrames,
      droppedFrames: frames.droppedVideoFrames,
      waiting,
    });
  };

  // Media events do not bubble, but they can be captured on their way down.
  const EVENTS = ['waiting', 'playing', 'pause', 'ended', 'seeking', 'seeked', 'stalled', 'ratechange', 'resize', 'error'];
  for (const name of EVENTS) {
    document.addEventListener(name, ({ target }) => {
      if (!(target instanceof HTMLVideoElement) || (window.__sojourn.video && target !== find()[1])) return;
      if (name === 'waiting') waiting = true;
      if (name === 'playing' || name === 'ended') waiting = false;
      const detail = {
        ratechange: () => target.playbackRate,
        resize: () => `${target.videoWidth}x${target.videoHeight}`,
        error: () => target.error && `${target.error.code} ${target.error.message}`,
      }[name];
      keep({ t: now(), event: name, detail: detail ? detail() : target.currentTime });
      if (name === 'resize') sample();
    }, true);
  }

  // A protected film requests a key system; a browser without any of the requested ones cannot show it.
  const { requestMediaKeySystemAccess: request } = Navigator.prototype; // only in secure contexts
  if (request) {
    Navigator.prototype.requestMediaKeySystemAccess = function requestMediaKeySystemAccess(...asked) {
      const answer = Reflect.apply(request, this, asked);
      answer.then(
        () => { window.__sojourn.locked = ''; },
        ({ name }) => { window.__sojourn.locked ??= `${asked[0]}: ${name}`; },
      );
      return answer;
    };
  }

  setInterval(sample, 250);
  window.__sojourn = { keep, drain: () => lines.splice(0) };
})();
