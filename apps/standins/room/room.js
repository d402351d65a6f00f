// SPDX-License-Identifier: Apache-2.0
// One party of a room: publishes its camera in layers, and if it ?speaks its microphone, and shows and plays the parties in
// ?tiles, each in its place on the screen: {"2": [x, y, width, height]} in px. A bar above a tile marks an active speaker.
// captures/call.js reports the connection, captures/sound.js the sound; this page reports joining, each tile's first
// picture and changes of height, and the active speakers.
'use strict';

(async () => {
  const { Room, RoomEvent, Track, VideoPreset } = LivekitClient;
  const query = new URLSearchParams(location.search);
  const given = (name) => JSON.parse(query.get(name));
  const places = given('tiles');
  const layers = given('layers').map((layer) => new VideoPreset(...layer)); // width, height, bit/s, frames/s; best last
  const best = layers.at(-1);
  const svc = given('svc');
  const raw = { echoCancellation: false, noiseSuppression: false, autoGainControl: false, channelCount: 1 };

  const now = () => performance.timeOrigin + performance.now(); // ms
  const keep = (event, detail, at = now()) => window.__sojourn.keep({ t: Math.round(at * 1e3) / 1e6, event, detail });
  const fail = (reason) => keep('failed', reason);
  window.addEventListener('unhandledrejection', ({ reason }) => fail(String(reason)));

  const heights = {}; // of the pictures shown, by party
  const tracks = {}; // party by track, for captures/call.js
  window.__sojourn.tiles = { heights, tracks };

  const bars = Object.fromEntries(Object.entries(places).map(([party, lengths]) => {
    const [left, top, width] = lengths.map((length) => `${length}px`);
    const bar = document.createElement('div');
    Object.assign(bar.style, { left, top, width });
    bar.hidden = true;
    document.body.append(bar);
    return [party, bar];
  }));

  function play(track, party) {
    if (track.kind === Track.Kind.Video) return show(track, party);
    track.attach();
    return window.__sojourn.hear(track.mediaStreamTrack).catch((error) => fail(String(error)));
  }

  function show(track, party) {
    const video = track.attach();
    const [left, top, width, height] = places[party].map((length) => `${length}px`);
    Object.assign(video.style, { left, top, width, height });
    document.body.prepend(video);
    tracks[track.mediaStreamTrack.id] = party;
    const note = (_, { expectedDisplayTime, height: lines }) => {
      if (lines !== heights[party]) {
        heights[party] = lines;
        keep('tile', [Number(party), lines], performance.timeOrigin + expectedDisplayTime);
      }
      video.requestVideoFrameCallback(note);
    };
    video.requestVideoFrameCallback(note);
  }

  const camera = await navigator.mediaDevices.getUserMedia({
    video: { width: { exact: best.width }, height: { exact: best.height } },
    audio: given('speaks') && raw,
  });
  const [picture] = camera.getVideoTracks();
  picture.onended = () => fail('the camera has ended');

  const room = new Room();
  const subscribe = (publication, { identity }) => { if (identity in places) publication.setSubscribed(true); };
  room.on(RoomEvent.TrackPublished, subscribe);
  room.on(RoomEvent.TrackSubscribed, (track, _, { identity }) => play(track, identity));
  room.on(RoomEvent.TrackUnsubscribed, (track, _, { identity }) => {
    for (const element of track.detach()) element.remove();
    if (track.kind !== Track.Kind.Video) return;
    keep('tile', [Number(identity), 0]);
    delete heights[identity];
  });
  room.on(RoomEvent.ActiveSpeakersChanged, (parties) => {
    const speak = parties.map(({ identity }) => Number(identity)).sort();
    for (const [party, bar] of Object.entries(bars)) bar.hidden = !speak.includes(Number(party));
    keep('speakers', speak);
  });
  room.on(RoomEvent.Reconnecting, () => keep('reconnecting'));
  room.on(RoomEvent.Reconnected, () => keep('reconnected'));
  room.on(RoomEvent.Disconnected, (reason) => fail(`the room's server has gone, reason ${reason}`));

  keep('joining');
  await room.connect(`wss://${location.host}`, query.get('token'), { autoSubscribe: false, rtcConfig: { iceServers: [] } });
  keep('joined');
  for (const party of room.remoteParticipants.values()) {
    for (const publication of party.trackPublications.values()) subscribe(publication, party);
  }
  await room.localParticipant.publishTrack(picture, {
    source: Track.Source.Camera,
    videoEncoding: best.encoding,
    backupCodec: false,
    ...(svc ? { videoCodec: 'vp9', scalabilityMode: 'L3T3_KEY' } : { videoSimulcastLayers: layers.slice(0, -1) }),
  });
  for (const voice of camera.getAudioTracks()) {
    voice.onended = () => fail('the microphone has ended');
    // As in a call: 32 kbit/s without DTX, to which tones are noise. LiveKit's default RED stays on.
    await room.localParticipant.publishTrack(window.__sojourn.converse(voice, fail), {
      source: Track.Source.Microphone, audioPreset: { maxBitrate: 32_000 }, dtx: false,
    });
  }
  keep('published');
})();
