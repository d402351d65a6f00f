// SPDX-License-Identifier: Apache-2.0
// Injected after captures/sound.js into the page of a call whose ends speak sentences: those have pauses of their own,
// so nobody mutes. An excerpt is longer than any pause.
(() => {
  'use strict';
  const player = window.__sojourn;
  if (!player?.converse) return;
  const EXCERPT_S = 10; // between excerpts
  const EXCERPT = 96000; // samples: 2 s and more
  const THINNED = 16; // an excerpt has every 16th sample, which are those of the file's and of no other place in it

  const now = () => performance.timeOrigin + performance.now(); // ms

  player.converse = (voice, failed) => {
    speak(voice).catch((error) => failed(String(error)));
    return voice.clone();
  };

  // As sound.js reports what is spoken.
  async function speak(track) {
    for (let count = 0; track.readyState === 'live';) {
      const reader = new MediaStreamTrackProcessor({ track, maxBufferSize: 100 }).readable.getReader();
      const [first, marks, samples] = [count, [], []];
      let rate;
      while (count - first < EXCERPT) {
        const { value: block, done } = await reader.read();
        if (done) return;
        rate = block.sampleRate;
        marks.push([count, block.timestamp, Math.round(now() * 1e3) / 1e3]);
        const pcm = new Int16Array(block.numberOfFrames);
        block.copyTo(pcm, { planeIndex: 0, format: 's16-planar' });
        samples.push(...pcm);
        count += pcm.length;
        block.close();
      }
      reader.cancel();
      const thinned = samples.filter((_, n) => n % THINNED === 0);
      player.keep({ t: now() / 1e3, event: 'spoken', detail: { rate, count, marks, excerpts: [[first, thinned]] } });
      await new Promise((resolve) => { setTimeout(resolve, EXCERPT_S * 1e3); });
    }
  }
})();
