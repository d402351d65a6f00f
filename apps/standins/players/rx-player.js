// SPDX-License-Identifier: Apache-2.0
// RxPlayer. Its throughput is in bit/s.
'use strict';

window.play = (video, { manifest, buffer, startBps }, fail) => {
  const player = new RxPlayer({ videoElement: video, wantedBufferAhead: buffer, baseBandwidth: startBps });
  let estimate = NaN;
  // The event of its own demonstration page: no public one has the estimate.
  player.addEventListener('__priv_bitrateEstimateChange', ({ type, bitrate }) => {
    if (type === 'video') estimate = bitrate;
  });
  player.addEventListener('error', (error) => fail(`RxPlayer: ${error.code || error.message}`));
  // A better rendition is appended after what is buffered, as by the others.
  player.loadVideo({ url: manifest, transport: 'dash', autoPlay: true, enableFastSwitching: false });
  return { throughput: () => estimate };
};
