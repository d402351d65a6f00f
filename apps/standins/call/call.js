// SPDX-License-Identifier: Apache-2.0
// One end of a call: sends its camera, shows the other's picture, and tells statistics and the camera's frames among
// the player's samples. No sound: lip sync would add the drift of Chromium's fake sound card to the picture's delay.
'use strict';

(async () => {
  const query = new URLSearchParams(location.search);
  const size = { width: Number(query.get('width')), height: Number(query.get('height')) };
  const bitrate = Number(query.get('bitrate'));
  const video = document.querySelector('video');

  const now = () => performance.timeOrigin + performance.now(); // ms
  const tell = (event, detail) => window.__sojourn.keep({ t: now() / 1e3, event, detail });
  const fail = (reason) => tell('failed', reason);
  window.addEventListener('unhandledrejection', ({ reason }) => fail(String(reason)));

  const camera = await navigator.mediaDevices.getUserMedia({
    video: { width: { exact: size.width }, height: { exact: size.height } },
  });
  const [picture] = camera.getVideoTracks();
  watch(picture);

  const peer = new RTCPeerConnection();
  window.callState = () => peer.connectionState;
  peer.ontrack = ({ streams }) => { video.srcObject = streams[0]; };
  peer.onconnectionstatechange = () => {
    if (peer.connectionState === 'failed') fail('the connection to the other end has failed');
  };
  const sender = peer.addTrack(picture, camera);
  const vp8 = RTCRtpReceiver.getCapabilities('video').codecs.filter(({ mimeType }) => /vp8|rtx/i.test(mimeType));
  peer.getTransceivers()[0].setCodecPreferences(vp8);

  const room = new WebSocket(`wss://${location.host}/room`);
  const say = (message) => room.send(JSON.stringify(message));
  const describe = async () => {
    await peer.setLocalDescription();
    say({ description: peer.localDescription });
  };
  peer.onicecandidate = ({ candidate }) => { if (candidate) say({ candidate }); };
  let heard = Promise.resolve(); // messages are handled one after the other
  room.onmessage = ({ data }) => { heard = heard.then(() => hear(JSON.parse(data))); };
  room.onclose = () => fail('the signalling server has gone');

  async function hear({ call, left, description, candidate }) {
    if (call) await describe();
    if (left) fail('the other end has left');
    if (candidate) await peer.addIceCandidate(candidate);
    if (!description) return;
    // At the full rate from the start, which libwebrtc's sender takes from the other's description: the ramp is no
    // part of a measurement, and from its usual 300 kbit/s it takes 20 s.
    const start = `$&a=fmtp:$1 x-google-start-bitrate=${bitrate / 1e3}\r\n`;
    description.sdp = description.sdp.replace(/a=rtpmap:(\d+) VP8\/90000\r\n/, start);
    await peer.setRemoteDescription(description);
    if (description.type === 'offer') await describe();
    const parameters = sender.getParameters();
    parameters.encodings[0].maxBitrate = bitrate;
    await sender.setParameters(parameters);
  }

  const WANTED = {
    inbound: ['framesReceived', 'framesDecoded', 'framesDropped', 'framesPerSecond', 'frameWidth', 'frameHeight',
      'freezeCount', 'totalFreezesDuration', 'packetsReceived', 'packetsLost', 'bytesReceived', 'jitter',
      'jitterBufferDelay', 'jitterBufferTargetDelay', 'jitterBufferEmittedCount', 'nackCount', 'pliCount', 'keyFramesDecoded'],
    outbound: ['framesEncoded', 'framesPerSecond', 'frameWidth', 'frameHeight', 'qualityLimitationReason',
      'qualityLimitationResolutionChanges', 'targetBitrate', 'bytesSent', 'packetsSent', 'retransmittedPacketsSent',
      'keyFramesEncoded', 'qpSum', 'totalEncodeTime'],
    pair: ['currentRoundTripTime', 'availableOutgoingBitrate'],
  };
  const pick = (stats, names) => Object.fromEntries(names.map((name) => [name, stats?.[name] ?? null]));
  setInterval(async () => {
    const report = await peer.getStats();
    const all = [...report.values()];
    const of = (type) => all.find((stats) => stats.type === type && stats.kind === 'video');
    const transport = all.find(({ type }) => type === 'transport');
    const pair = report.get(transport?.selectedCandidatePairId);
    window.callPort = report.get(pair?.localCandidateId)?.port;
    tell('call', {
      state: peer.connectionState,
      inbound: pick(of('inbound-rtp'), WANTED.inbound),
      outbound: pick(of('outbound-rtp'), WANTED.outbound),
      pair: pick(pair, WANTED.pair),
    });
  }, 1000);

  // When each frame left the camera: [number from its strip, camera's own clock (us), arrival here (Unix ms)].
  async function watch(track) {
    const CELLS = 40;
    const row = 2 * Math.floor(size.height * 39 / 80); // in the strip's middle, even as chroma needs it
    const rect = { x: 0, y: row, width: size.width, height: 2 };
    const frames = new MediaStreamTrackProcessor({ track, maxBufferSize: 10 }).readable.getReader();
    let pixels = null;
    let seen = [];
    setInterval(() => { tell('camera', seen); seen = []; }, 1000);
    for (;;) {
      const { value: frame, done } = await frames.read();
      if (done) return fail('the camera has ended');
      const arrived = now();
      pixels ||= new Uint8Array(frame.allocationSize({ rect }));
      await frame.copyTo(pixels, { rect });
      let number = 0; // cells 4 to 23, highest bit first (scoring/strip.py)
      for (let cell = 4; cell < 24; cell++) {
        number = 2 * number + (pixels[Math.floor((cell + 0.5) * size.width / CELLS)] > 126);
      }
      seen.push([number, frame.timestamp, Math.round(arrived * 1e3) / 1e3]);
      frame.close();
    }
  }
})();
