// SPDX-License-Identifier: Apache-2.0
// Shaka Player. Its throughput is in bit/s.
'use strict';

window.play = (video, { manifest, buffer, startBps }, fail) => {
  const player = new shaka.Player();
  player.configure({
    // Chromium's own estimate of the downlink would replace the start.
    abr: { useNetworkInformation: false, defaultBandwidthEstimate: startBps },
    streaming: { bufferingGoal: buffer },
  });
  const report = ({ severity, code }) => severity === shaka.util.Error.Severity.CRITICAL && fail(`Shaka error ${code}`);
  player.addEventListener('error', ({ detail }) => report(detail));
  player.attach(video)
    .then(() => player.load(manifest, null, 'application/dash+xml'))
    .then(() => video.play())
    .catch(report);
  return { throughput: () => player.getStats().estimatedBandwidth };
};
