// SPDX-License-Identifier: Apache-2.0
// Plays one stream: HLS by hls.js, DASH (a path that ends in .mpd) by dash.js.
// Query: url of the stream, buffer in seconds to keep ahead. `window.player` tells what it shows.
'use strict';

(() => {
  const query = new URLSearchParams(location.search);
  const video = document.querySelector('video');
  const url = new URL(query.get('url'), location.href).href;
  const buffer = Number(query.get('buffer') || 6);

  const fail = (text) => { window.playerError ||= text; };
  const answer = (status) => (status ? `HTTP ${status}` : 'no answer');
  const fits = (width) => width <= video.clientWidth;

  function playHls() {
    const hls = new Hls({
      capLevelToPlayerSize: true, // nothing wider than the window
      startLevel: 0, // a modest start, then up
      liveSyncDuration: buffer, // behind the end of the newest segment
      maxBufferLength: buffer, // the least; the most is
      maxMaxBufferLength: buffer,
      backBufferLength: 30,
    });
    hls.on(Hls.Events.ERROR, (_, { fatal, type, details, response }) => {
      if (!fatal) return;
      if (type === Hls.ErrorTypes.MEDIA_ERROR) return hls.recoverMediaError();
      // What has played once goes on when the network does: a viewer's set keeps trying.
      if (type === Hls.ErrorTypes.NETWORK_ERROR && video.currentTime > 0 && ![401, 403].includes(response?.code)) {
        return void setTimeout(() => hls.startLoad(), 500);
      }
      fail(`${details}, ${answer(response?.code)}`);
    });
    hls.on(Hls.Events.MANIFEST_PARSED, () => { video.play().catch(() => {}); });
    hls.loadSource(url);
    hls.attachMedia(video);
    return () => hls.levels.filter(({ width }) => !width || fits(width)).map(({ height }) => height);
  }

  function playDash() {
    const dash = dashjs.MediaPlayer().create();
    dash.initialize(video, url, true);
    dash.updateSettings({
      streaming: {
        buffer: { bufferTimeDefault: buffer, bufferTimeAtTopQuality: buffer, bufferTimeAtTopQualityLongForm: buffer },
        abr: { limitBitrateByPortal: true },
      },
    });
    dash.on('error', ({ error }) => {
      const { request, response } = error.data || {};
      fail(`${error.message}, ${request ? answer(response?.status) : `code ${error.code}`}`);
    });
    return () => dash.getRepresentationsByType('video').filter(({ width }) => fits(width)).map(({ height }) => height);
  }

  const heights = new URL(url).pathname.endsWith('.mpd') ? playDash() : playHls();
  window.player = { shown: () => video.videoHeight, best: () => Math.max(0, ...heights()) };
})();
