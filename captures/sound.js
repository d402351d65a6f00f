// SPDX-License-Identifier: Apache-2.0
// Taps the sound of a call, among the player's samples (player.js, which runs before): all samples of the track that is
// heard, behind the receiver's jitter buffer, and excerpts of the track that is spoken, which tell its place in the
// speaker's file.
(() => {
  'use strict';
  const player = window.__sojourn;
  if (!player || player.hear) return;
  const LEAP_US = 1500; // a block this far from where its predecessors lead begins a new part; devices' timers jitter less
  const EXCERPT_S = 10; // between excerpts
  const EXCERPT = 5760; // samples: five of the speaker's tones and more
  const [SPURT_MS, PAUSE_MS] = [1000, 600];
  const THINNED = 4; // an excerpt has every fourth sample: the tones are far below its Nyquist frequency

  const now = () => performance.timeOrigin + performance.now(); // ms
  const tap = (track) => new MediaStreamTrackProcessor({ track, maxBufferSize: 100 }).readable.getReader();

  // Copies a block to samples[at] and closes it; returns its number of samples.
  function take(block, samples, at) {
    const size = block.numberOfFrames;
    block.copyTo(samples.subarray(at, at + size), { planeIndex: 0, format: 's16-planar' });
    block.close();
    return size;
  }

  // Both report the rate, the number of samples so far, and marks: [index of a block's first sample, time by the track's
  // clock (us), arrival (Unix ms)].

  // Every second, with all samples in base64, and a mark of the first block and of each that begins a part.
  // A block is 10 ms: what it costs here, a call pays 200 times a second.
  let count = 0; // of all tracks: after a reconnection, another one goes on
  player.hear = async (track) => {
    const reader = tap(track);
    let [filled, begun, last, marks, pcm] = [0, null, null, [], null];
    for (;;) {
      const { value: block, done } = await reader.read();
      if (done) {
        count -= filled; // not kept
        return;
      }
      const { timestamp: at, sampleRate: rate } = block;
      if (begun === null || Math.abs(at - last[1] - (count - last[0]) / rate * 1e6) > LEAP_US) {
        marks.push(last = [count, at, Math.round(now() * 1e3) / 1e3]);
      }
      begun ??= at;
      pcm ??= new Int16Array(2 * rate);
      const size = take(block, pcm, filled);
      [count, filled] = [count + size, filled + size];
      if (at - begun >= 1e6 || filled > rate * 1.5) {
        const samples = new Uint8Array(pcm.buffer, 0, 2 * filled).toBase64();
        player.keep({ t: now() / 1e3, event: 'heard', detail: { rate, count, marks, pcm: samples } });
        [filled, begun, marks] = [0, null, []];
      }
    }
  };

  // Returns the track to send of a microphone, and taps it as `speak` does. Speech has pauses, in which a receiver shortens
  // its jitter buffer: it cannot do so within tones of 20 ms. The tap has none.
  player.converse = (voice, failed) => {
    const mouth = voice.clone();
    const turn = () => {
      player.keep({ t: Math.round(now() * 1e3) / 1e6, event: 'muted', detail: !mouth.enabled });
      setTimeout(() => { mouth.enabled = !mouth.enabled; turn(); }, mouth.enabled ? SPURT_MS : PAUSE_MS);
    };
    turn();
    speak(voice).catch((error) => failed(String(error)));
    return mouth;
  };

  // Every ten seconds, with [index, samples] of an excerpt; samples between excerpts are not counted.
  async function speak(track) {
    for (let count = 0; track.readyState === 'live';) {
      const [reader, first, marks, samples] = [tap(track), count, [], new Int16Array(2 * EXCERPT)];
      let rate;
      while (count - first < EXCERPT) {
        const { value: block, done } = await reader.read();
        if (done) return;
        rate = block.sampleRate;
        marks.push([count, block.timestamp, Math.round(now() * 1e3) / 1e3]);
        count += take(block, samples, count - first);
      }
      reader.cancel();
      const thinned = [...samples.subarray(0, count - first).filter((_, n) => n % THINNED === 0)];
      player.keep({ t: now() / 1e3, event: 'spoken', detail: { rate, count, marks, excerpts: [[first, thinned]] } });
      await new Promise((resolve) => { setTimeout(resolve, EXCERPT_S * 1e3); });
    }
  }
})();
