// SPDX-License-Identifier: Apache-2.0
// hls.js. Its throughput is in bit/s.
'use strict';

window.play = (video, { manifest, buffer, startBps, target }, fail) => {
  const hls = new Hls({
    startLevel: 0,
    abrEwmaDefaultEstimate: startBps,
    maxBufferLength: buffer,
    maxMaxBufferLength: buffer, // by default it fetches up to 60 MB ahead
    backBufferLength: 30,
    // Of a broadcast: behind the end of the newest segment, or of the newest part by what the playlist says.
    ...(target ? { lowLatencyMode: true, maxLiveSyncPlaybackRate: 1.05 } : { liveSyncDuration: buffer }),
  });
  hls.on(Hls.Events.ERROR, (_, { fatal, type, details, response }) => {
    if (!fatal) return;
    if (type === Hls.ErrorTypes.MEDIA_ERROR) return hls.recoverMediaError();
    // What has played once goes on when the network does: a viewer's set keeps trying.
    if (type === Hls.ErrorTypes.NETWORK_ERROR && video.currentTime > 0) return void setTimeout(() => hls.startLoad(), 500);
    fail(`${details}, HTTP ${response?.code || 'without an answer'}`);
  });
  hls.on(Hls.Events.MANIFEST_PARSED, () => { video.play().catch(() => {}); });
  hls.loadSource(manifest);
  hls.attachMedia(video);
  return {
    throughput: () => hls.bandwidthEstimate,
    began: () => (hls.playingDate ?? NaN) / 1000 - video.currentTime, // no date at first
  };
};
