// SPDX-License-Identifier: Apache-2.0
// dash.js with one of its rules of adaptation. Its throughput is in bit/s.
'use strict';

window.play = (video, { manifest, buffer, rule, startBps, target }, fail) => {
  const active = (names) => Object.fromEntries(
    ['throughputRule', 'bolaRule', 'insufficientBufferRule', 'switchHistoryRule', 'abandonRequestsRule', 'l2ARule', 'loLPRule']
      .map((name) => [name, { active: names.includes(name) }]),
  );
  const safeguards = ['insufficientBufferRule', 'switchHistoryRule', 'abandonRequestsRule'];
  const rules = {
    dynamic: active(['throughputRule', 'bolaRule', ...safeguards]), // both: it changes from one to the other by buffer
    throughput: active(['throughputRule', ...safeguards]),
    bola: active(['bolaRule', ...safeguards]),
    l2a: active(['l2ARule']), // dash.js's documentation: a rule to use alone, and so is LoL+
    lolp: active(['loLPRule']),
  }[rule];
  const dash = dashjs.MediaPlayer().create();
  dash.initialize();
  dash.updateSettings({
    streaming: {
      buffer: {
        bufferTimeDefault: buffer,
        bufferTimeAtTopQuality: buffer,
        bufferTimeAtTopQualityLongForm: buffer,
        // A better rendition is appended after what is buffered: a change that is seen is the network's doing.
        fastSwitchEnabled: false,
      },
      abr: { limitBitrateByPortal: false, initialBitrate: { video: startBps / 1000 }, rules },
      // The speed at which it catches up is the manifest's.
      ...(target && {
        delay: { liveDelay: target },
        liveCatchup: { enabled: true, mode: rule === 'lolp' ? 'liveCatchupModeLoLP' : 'liveCatchupModeDefault' },
      }),
      utcSynchronization: { enabled: false }, // its default asks a server on the internet; both ends have one clock here
    },
  });
  dash.on('error', ({ error }) => fail(`${error.code}: ${error.message}`));
  dash.attachView(video);
  dash.setAutoPlay(true);
  dash.attachSource(manifest);
  return { throughput: () => dash.getAverageThroughput('video') * 1000 };
};
