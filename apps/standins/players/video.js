// SPDX-License-Identifier: Apache-2.0
// video.js, whose http-streaming (VHS) plays the stream. Its throughput is in bit/s.
'use strict';

window.play = (video, { manifest, buffer, startBps }, fail) => {
  const { Vhs } = videojs;
  Vhs.GOAL_BUFFER_LENGTH = buffer;
  Vhs.MAX_GOAL_BUFFER_LENGTH = buffer;
  // With less than this it takes no better rendition: half of the buffer, as its defaults of 30 and 60 s.
  Vhs.MAX_BUFFER_LOW_WATER_LINE = buffer / 2;
  const player = videojs(video, {
    children: ['mediaLoader'], // the picture alone
    html5: {
      vhs: {
        overrideNative: true,
        bandwidth: startBps,
        limitRenditionByPlayerDimensions: false,
        useNetworkInformationApi: false, // Chromium's own estimate of the downlink
      },
      nativeAudioTracks: false,
      nativeVideoTracks: false,
    },
  });
  player.on('error', () => fail(`video.js: ${player.error().code} ${player.error().message}`));
  player.src({ src: manifest, type: 'application/vnd.apple.mpegurl' });
  player.play()?.catch(() => {});
  return { throughput: () => player.tech(true)?.vhs?.bandwidth };
};
