// SPDX-License-Identifier: Apache-2.0
// Plays the film with one of several players, and logs every segment that the player requests, in one form for all.
// Query: player (script next to this one), library, manifest, buffer in seconds to keep ahead, rule of adaptation, rungs
// of the film as LINES:BIT/S, offered ones by their index. With low latency: target in seconds behind the broadcast, and
// start, when its first picture was broadcast, in Unix seconds. `window.player` tells what it shows.
'use strict';

(() => {
  const query = new URLSearchParams(location.search);
  const video = document.querySelector('video');
  const rungs = query.get('rungs').split(',').map((rung) => rung.split(':').map(Number));
  const offered = query.get('offered').split(',').map((index) => rungs[index][0]);
  const settings = {
    manifest: new URL(query.get('manifest'), location.href).href,
    buffer: Number(query.get('buffer')),
    rule: query.get('rule'),
    startBps: 700_000, // a modest start, then up
    target: Number(query.get('target')),
  };
  const fail = (text) => { window.playerError ||= text; };
  const now = () => Math.round((performance.timeOrigin + performance.now()) * 1e3) / 1e6;
  let playing = { throughput: () => NaN }; // the player's own estimate, bit/s
  let played = false;
  let stalls = 0;
  let last = ''; // requested segment

  video.addEventListener('playing', () => { played = true; });
  video.addEventListener('waiting', () => { stalls += played; });

  const ahead = () => {
    const { buffered, currentTime } = video;
    for (let i = 0; i < buffered.length; i++) {
      if (buffered.start(i) <= currentTime + 0.1 && currentTime <= buffered.end(i)) return buffered.end(i) - currentTime;
    }
    return 0;
  };

  function noteRequest(url) {
    const [, rung, number, part] = new URL(url, location.href).pathname.match(/^\/media\/(\d+)\/(\d+)(?:\.(\d+))?\.m4s$/) || [];
    if (rung === undefined || (part && part !== '0' && `${rung} ${number}` === last)) return; // a further part of it
    last = `${rung} ${number}`;
    const [height, bps] = rungs[rung];
    const estimate = playing.throughput();
    window.__sojourn?.keep({
      t: now(),
      event: 'decision',
      detail: {
        segment: Number(number),
        height,
        rate_bps: bps,
        buffer_s: Math.round(ahead() * 1e3) / 1e3,
        throughput_bps: Number.isFinite(estimate) && estimate > 0 ? Math.round(estimate) : null,
        stalls,
      },
    });
  }

  // Whatever the player, its choice is the segment that it requests.
  const { open } = XMLHttpRequest.prototype;
  XMLHttpRequest.prototype.open = function openNoted(method, url, ...rest) {
    noteRequest(url);
    return Reflect.apply(open, this, [method, url, ...rest]);
  };
  const { fetch } = window;
  window.fetch = function fetchNoted(resource, ...rest) {
    noteRequest(resource.url || resource);
    return Reflect.apply(fetch, this, [resource, ...rest]);
  };

  const load = (source) => new Promise((loaded) => {
    const script = document.createElement('script');
    script.onload = loaded;
    script.onerror = () => setTimeout(() => location.reload(), 300); // as in index.html
    script.src = source;
    document.body.append(script);
  });

  window.player = { shown: () => video.videoHeight, best: () => Math.max(...offered) };
  load(query.get('library')).then(() => load(query.get('player'))).then(() => {
    playing = window.play(video, settings, fail);
    if (settings.target) setInterval(noteLatency, 250);
  });

  function noteLatency() {
    // When position 0 was broadcast: where a player has a timeline of its own, it knows.
    const began = playing.began ? playing.began() : Number(query.get('start'));
    if (video.readyState < 2 || !Number.isFinite(began)) return;
    const latency = Math.round((now() - began - video.currentTime) * 1e3) / 1e3;
    window.__sojourn?.keep({
      t: now(), event: 'latency', detail: { latency_s: latency, rate: video.playbackRate },
    });
  }
})();
