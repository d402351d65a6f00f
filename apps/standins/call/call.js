// SPDX-License-Identifier: Apache-2.0
// One end of a call: sends its camera, and with ?sound its microphone, and plays the other's; captures/call.js tells of
// both, captures/sound.js of the sound.
'use strict';

(async () => {
  const query = new URLSearchParams(location.search);
  const size = { width: Number(query.get('width')), height: Number(query.get('height')) };
  const bitrate = Number(query.get('bitrate'));
  const video = document.querySelector('video');

  const now = () => performance.timeOrigin + performance.now(); // ms
  const fail = (reason) => window.__sojourn.keep({ t: now() / 1e3, event: 'failed', detail: reason });
  window.addEventListener('unhandledrejection', ({ reason }) => fail(String(reason)));

  const raw = { echoCancellation: false, noiseSuppression: false, autoGainControl: false, channelCount: 1 };
  const camera = await navigator.mediaDevices.getUserMedia({
    video: { width: { exact: size.width }, height: { exact: size.height } },
    audio: query.has('sound') && raw,
  });
  const [picture] = camera.getVideoTracks();
  picture.onended = () => fail('the camera has ended');

  const peer = new RTCPeerConnection();
  peer.ontrack = ({ track, streams }) => {
    video.srcObject = streams[0];
    if (track.kind === 'audio') window.__sojourn.hear(track).catch((error) => fail(String(error)));
  };
  peer.onconnectionstatechange = () => {
    if (peer.connectionState === 'failed') fail('the connection to the other end has failed');
    if (peer.connectionState === 'connected') sender.replaceTrack(picture);
  };
  const sender = peer.addTrack(picture, camera);
  const vp8 = RTCRtpReceiver.getCapabilities('video').codecs.filter(({ mimeType }) => /vp8|rtx/i.test(mimeType));
  peer.getTransceivers()[0].setCodecPreferences(vp8);
  for (const voice of camera.getAudioTracks()) {
    voice.onended = () => fail('the microphone has ended');
    peer.addTrack(window.__sojourn.converse(voice, fail), camera);
    // A picture that is encoded before the sender knows its rate begins at 360 lines, and takes 7 s to its full size.
    await sender.replaceTrack(null);
  }

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
})();
