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
  const THINNED = 4; // an excerpt has every fourth sample: the tones are far below its Nyquist frequency

  const now = () => performance.timeOrigin + performance.now(); // ms

  // The blocks of a track: samples, time by the track's clock (us), rate, arrival (Unix ms).
  async function* blocks(track) {
    const reader = new MediaStreamTrackProcessor({ track, maxBufferSize: 100 }).readable.getReader();
    try {
      for (;;) {
        const { value: block, done } = await reader.read();
        if (done) return;
        const arrived = Math.round(now() * 1e3) / 1e3;
        const samples = new Int16Array(block.numberOfFrames);
        block.copyTo(samples, { planeIndex: 0, format: 's16-planar' });
        const { timestamp: at, sampleRate: rate } = block;
        block.close();
        yield { samples, at, rate, arrived };
      }
    } finally {
      reader.cancel();
    }
  }

  // Both report the rate, the number of samples so far, and marks: [index of a block's first sample, time, arrival].

  // Every second, with all samples in base64, and a mark of the first block and of each that begins a part.
  player.hear = async (track) => {
    let [count, begun, last] = [0, null, null];
    let [marks, pcm] = [[], []];
    for await (const { samples, at, rate, arrived } of blocks(track)) {
      const leaps = !last || Math.abs(at - last[1] - (count - last[0]) / rate * 1e6) > LEAP_US;
      if (begun === null || leaps) marks.push(last = [count, at, arrived]);
      begun ??= at;
      pcm.push(samples);
      count += samples.length;
      if (at - begun >= 1e6) {
        player.keep({ t: now() / 1e3, event: 'heard', detail: { rate, count, marks, pcm: base64(pcm) } });
        [begun, marks, pcm] = [null, [], []];
      }
    }
  };

  // Every ten seconds, with [index, samples] of an excerpt; samples between excerpts are not counted.
  player.speak = async (track) => {
    for (let count = 0; track.readyState === 'live';) {
      const [first, marks, thinned] = [count, [], []];
      for await (const { samples, at, rate, arrived } of blocks(track)) {
        marks.push([count, at, arrived]);
        thinned.push(...samples.filter((_, n) => (count + n - first) % THINNED === 0));
        count += samples.length;
        if (count - first < EXCERPT) continue;
        player.keep({ t: now() / 1e3, event: 'spoken', detail: { rate, count, marks, excerpts: [[first, thinned]] } });
        break;
      }
      await new Promise((resolve) => { setTimeout(resolve, EXCERPT_S * 1e3); });
    }
  };

  function base64(parts) {
    const all = new Int16Array(parts.reduce((sum, { length }) => sum + length, 0));
    parts.reduce((at, part) => { all.set(part, at); return at + part.length; }, 0);
    return new Uint8Array(all.buffer).toBase64();
  }
})();
