// SPDX-License-Identifier: Apache-2.0
// Watches a call on any page: keeps every RTCPeerConnection that the page creates and reports, every second, the statistics
// of the received picture, the sent picture and the path, and when each frame left the camera, among the player's samples
// (player.js, which runs before). A call with RFC 8888 feedback also reports its ECN counters. With `pictures`, which
// captures/pictures.js sets, it also reports when each frame of the other end reached the page.
(() => {
  'use strict';
  const player = window.__sojourn;
  if (!player || player.state) return; // a frame within the page has no player
  const WANTED = {
    inbound: ['framesReceived', 'framesDecoded', 'framesDropped', 'framesPerSecond', 'frameWidth', 'frameHeight',
      'freezeCount', 'totalFreezesDuration', 'packetsReceived', 'packetsLost', 'bytesReceived', 'jitter',
      'jitterBufferDelay', 'jitterBufferTargetDelay', 'jitterBufferEmittedCount', 'nackCount', 'pliCount', 'keyFramesDecoded'],
    outbound: ['framesEncoded', 'framesPerSecond', 'frameWidth', 'frameHeight', 'qualityLimitationReason',
      'qualityLimitationResolutionChanges', 'targetBitrate', 'bytesSent', 'packetsSent', 'retransmittedPacketsSent',
      'keyFramesEncoded', 'qpSum', 'totalEncodeTime'],
    sound: ['totalSamplesReceived', 'concealedSamples', 'silentConcealedSamples', 'concealmentEvents',
      'insertedSamplesForDeceleration', 'removedSamplesForAcceleration', 'packetsReceived', 'packetsLost',
      'packetsDiscarded', 'fecPacketsReceived', 'jitter', 'jitterBufferDelay', 'jitterBufferTargetDelay',
      'jitterBufferEmittedCount'],
    pair: ['currentRoundTripTime', 'availableOutgoingBitrate'],
  };
  // The counters of ECN, by the report that has them.
  const MARKS = {
    outbound: ['packetsSentWithEct1'],
    inbound: ['packetsReceivedWithEct1', 'packetsReceivedWithCe'],
    feedback: ['packetsWithBleachedEct1Marking'],
    transport: ['ccfbMessagesReceived'],
  };
  const LOST_S = 15; // a site may reconnect by itself
  const connections = [];
  const moved = new Map(); // bytes of each stream, as of the last second
  const chosen = {}; // the inbound and the outbound stream that are reported
  let shown = null; // id of the track whose picture is watched
  const watched = { camera: null, delivered: null }; // the tracks that go to the other end and come from it
  const frames = { camera: [], delivered: [] };
  let lost = 0; // s
  let last = null; // the inbound stream of the last second, and its packets

  const now = () => performance.timeOrigin + performance.now(); // ms
  const tell = (event, detail) => player.keep({ t: now() / 1e3, event, detail });

  // A proxy, not a subclass: the page finds the same prototype and the same static methods.
  const kept = new Proxy(window.RTCPeerConnection, {
    construct(target, given, as) {
      const peer = Reflect.construct(target, given, as);
      connections.push(peer);
      return peer;
    },
  });
  window.RTCPeerConnection = window.webkitRTCPeerConnection = kept;
  player.state = () => connections.map((peer) => peer.connectionState).join(', ') || 'no connection';

  // The last frames too: the end of a run is no full second.
  const { drain } = player;
  player.drain = () => {
    for (const [name, came] of Object.entries(frames)) if (came.length) tell(name, came.splice(0));
    return drain();
  };

  // The largest element that shows the received picture; a site may show it in a thumbnail too.
  const area = ({ clientWidth, clientHeight }) => clientWidth * clientHeight;
  player.video = () => [...document.querySelectorAll('video')]
    .filter(({ srcObject }) => shown && srcObject?.getVideoTracks?.().some(({ id }) => id === shown))
    .sort((a, b) => area(b) - area(a))[0] || null;

  // The stream with the most bytes since the last second, else the previous one: a site may keep idle streams.
  function busiest(streams, type, bytes) {
    const those = streams.filter(({ stats }) => stats.type === type);
    const gain = ({ key, stats }) => stats[bytes] - (moved.get(key) ?? 0) + (key === chosen[type] ? 0.5 : 0);
    const [best] = those.sort((a, b) => gain(b) - gain(a));
    for (const { key, stats } of those) moved.set(key, stats[bytes]);
    chosen[type] = best?.key;
    return best;
  }

  // The statistics of every picture that a room's page shows, by party.
  const tiles = (streams) => Object.fromEntries(streams
    .filter(({ stats }) => stats.type === 'inbound-rtp' && stats.trackIdentifier in player.tiles.tracks)
    .map(({ stats }) => [player.tiles.tracks[stats.trackIdentifier], pick(stats, WANTED.inbound)]));
  const pick = (stats, names) => Object.fromEntries(names.map((name) => [name, stats?.[name] ?? null]));
  async function sample() {
    const streams = [];
    let sound = null; // of a stand-in call, which has one
    for (const [n, peer] of connections.entries()) {
      if (peer.connectionState === 'closed') continue;
      const report = await peer.getStats();
      for (const stats of report.values()) {
        if (stats.kind === 'audio' && stats.type === 'inbound-rtp') sound ??= stats;
        if (stats.kind === 'video') streams.push({ key: `${n} ${stats.id}`, peer, report, stats });
      }
    }
    const inbound = busiest(streams, 'inbound-rtp', 'bytesReceived');
    const outbound = busiest(streams, 'outbound-rtp', 'bytesSent');
    shown = inbound?.stats.trackIdentifier ?? shown;
    const came = inbound ? { key: inbound.key, packets: inbound.stats.packetsReceived } : null;
    player.receives = Boolean(came && came.key === last?.key && came.packets > last.packets);
    last = came;
    const of = inbound || outbound;
    const transport = of?.report.get(of.stats.transportId);
    const pair = of?.report.get(transport?.selectedCandidatePairId);
    const [local, remote] = ['local', 'remote'].map((side) => of?.report.get(pair?.[`${side}CandidateId`]));
    if (remote) {
      player.path = {
        port: local.port, local: local.candidateType, remote: remote.candidateType, protocol: remote.protocol,
        address: /^[\d.]+$|:/.test(remote.address) ? remote.address : null, remotePort: remote.port,
      };
    }
    tell('call', {
      state: of?.peer.connectionState ?? player.state(),
      inbound: pick(inbound?.stats, WANTED.inbound),
      outbound: pick(outbound?.stats, WANTED.outbound),
      pair: pick(pair, WANTED.pair),
      path: remote ? player.path : null,
      ...(player.tiles ? { tiles: tiles(streams) } : {}), // in a room
      ...(sound && player.hear ? { sound: pick(sound, WANTED.sound) } : {}), // if the call's sound is tapped
      ...(transport?.ccfbMessagesReceived === undefined ? {} : { // only RFC 8888 feedback is counted
        marks: {
          ...pick(outbound?.stats, MARKS.outbound), ...pick(inbound?.stats, MARKS.inbound),
          ...pick(outbound?.report.get(outbound.stats.remoteId), MARKS.feedback), ...pick(transport, MARKS.transport),
        },
      }),
    });
    const source = outbound?.report.get(outbound.stats.mediaSourceId)?.trackIdentifier;
    watch('camera', outbound?.peer.getSenders().map(({ track }) => track).find((track) => track?.id === source));
    if (player.pictures) {
      watch('delivered', inbound?.peer.getReceivers().map(({ track }) => track).find((track) => track?.id === shown));
    }
    const up = connections.some((peer) => peer.connectionState === 'connected');
    lost = up || !player.path ? 0 : lost + 1;
    if (lost === LOST_S) tell('failed', `the page had no connection for ${LOST_S} s`);
  }
  let busy = false;
  setInterval(async () => {
    if (busy) return;
    busy = true;
    await sample().catch((error) => tell('failed', `the call's statistics: ${error}`));
    busy = false;
  }, 1000);

  // Reports when each frame of a track came, from now on: [number from its strip, its own time stamp (us), arrival here
  // (Unix ms)]. That of the camera's track is the camera's clock.
  async function watch(name, track) {
    if (!track || track === watched[name]) return;
    watched[name] = track;
    const reader = new MediaStreamTrackProcessor({ track, maxBufferSize: 10 }).readable.getReader();
    let pixels = new Uint8Array();
    while (track === watched[name]) {
      const { value: frame, done } = await reader.read();
      if (done) return;
      const arrived = now();
      const { x, y, width, height } = frame.visibleRect;
      const rect = { x, y: y + 2 * Math.floor(height * 39 / 80), width, height: 2 }; // the strip's middle, even as chroma needs it
      if (['I420', 'NV12'].includes(frame.format)) { // whose first plane is luma
        const size = frame.allocationSize({ rect });
        if (pixels.length !== size) pixels = new Uint8Array(size);
        await frame.copyTo(pixels, { rect });
        const number = read(pixels, width);
        if (number !== null) frames[name].push([number, frame.timestamp, Math.round(arrived * 1e3) / 1e3]);
      }
      frame.close();
    }
    reader.cancel();
  }

  // The frame's number in a row of a strip, null where there is none: scoring/picture/strip.py has the layout.
  function read(luma, width) {
    const bits = Array.from({ length: 40 }, (_, cell) => Number(luma[Math.floor((cell + 0.5) * width / 40)] > 126));
    const value = (from, to) => bits.slice(from, to).reduce((sum, bit) => 2 * sum + bit, 0);
    let crc = 0;
    for (const bit of bits.slice(4, 28)) crc = (crc << 1 ^ ((crc >> 7 ^ bit) & 1 ? 7 : 0)) & 255;
    return value(0, 4) === 10 && value(36, 40) === 5 && value(28, 36) === crc ? value(4, 24) : null;
  }
})();
