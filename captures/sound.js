// SPDX-License-Identifier: Apache-2.0
// Taps the sound of a call, among the player's samples (player.js, which runs before): all samples of the track that is
// heard, behind the receiver's jitter buffer, and of the track that is spoken the times, and excerpts that tell its place
// in the speaker's file.
(() => {
  'use strict';
  const player = window.__sojourn;
  if (!player || player.listen) return;
  const LEAP_US = 1500; // a block this far from where its predecessors lead begins a new part; devices' timers jitter less
  const EXCERPT_S = 10; // between excerpts
  const EXCERPT = 5760; // samples: five of the speaker's tones and more
  const THINNED = 4; // an excerpt has every fourth sample: the tones are far below its Nyquist frequency

  const now = () => performance.timeOrigin + performance.now(); // ms

  // Reports every second: the rate and the number of samples so far, and [index of a block's first sample, its time by the
  // track's clock (us), its arrival (Unix ms)] of the first block and of each that begins a part; with `whole`, the
  // samples in base64, otherwise [index, samples] of every excerpt.
  player.listen = async (event, track, whole) => {
    const blocks = new MediaStreamTrackProcessor({ track, maxBufferSize: 100 }).readable.getReader();
    let [count, begun, mark, taken, excerpt] = [0, null, null, -Infinity, null];
    let [marks, pcm, excerpts] = [[], [], []];
    for (;;) {
      const { value: block, done } = await blocks.read();
      if (done) break;
      const { numberOfFrames: length, timestamp, sampleRate: rate } = block;
      const leaps = !mark || Math.abs(timestamp - mark[1] - (count - mark[0]) / rate * 1e6) > LEAP_US;
      if (begun === null || leaps) marks.push(mark = [count, timestamp, Math.round(now() * 1e3) / 1e3]);
      begun ??= timestamp;
      if (!whole && (leaps || timestamp - taken >= EXCERPT_S * 1e6)) [taken, excerpt] = [timestamp, [count, []]];
      if (whole || excerpt) {
        const samples = new Int16Array(length);
        block.copyTo(samples, { planeIndex: 0, format: 's16-planar' });
        if (whole) pcm.push(samples);
        excerpt?.[1].push(...samples);
        if (excerpt?.[1].length >= EXCERPT) {
          excerpts.push([excerpt[0], excerpt[1].filter((_, n) => n % THINNED === 0)]);
          excerpt = null;
        }
      }
      block.close();
      count += length;
      if (timestamp - begun >= 1e6) {
        player.keep({ t: now() / 1e3, event, detail: { rate, count, marks, ...(whole ? { pcm: base64(pcm) } : { excerpts }) } });
        [begun, marks, pcm, excerpts] = [null, [], [], []];
      }
    }
  };

  function base64(parts) {
    const all = new Int16Array(parts.reduce((sum, { length }) => sum + length, 0));
    parts.reduce((at, part) => { all.set(part, at); return at + part.length; }, 0);
    return new Uint8Array(all.buffer).toBase64();
  }
})();
