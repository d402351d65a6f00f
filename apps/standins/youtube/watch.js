// SPDX-License-Identifier: Apache-2.0
// A watch page around dash.js whose player element has the methods of YouTube's `#movie_player`.
'use strict';

(() => {
  const query = new URLSearchParams(location.search);
  const player = document.getElementById('movie_player');
  const video = player.querySelector('video');
  const part = (name) => player.querySelector('.ytp-' + name);

  const QUALITIES = [
    [144, 'tiny'], [240, 'small'], [360, 'medium'], [480, 'large'], [720, 'hd720'], [1080, 'hd1080'],
    [1440, 'hd1440'], [2160, 'hd2160'],
  ];
  const heightOf = (name) => (QUALITIES.find(([, quality]) => quality === name) || [0])[0];
  const nameOf = (height) => (QUALITIES.find(([rows]) => rows >= height) || ['', 'highres'])[1];
  const STATE = { UNSTARTED: -1, ENDED: 0, PLAYING: 1, PAUSED: 2, BUFFERING: 3 };

  const buffer = Number(query.get('buffer') || 12); // seconds of film to keep ahead
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
      abr: {
        limitBitrateByPortal: false, // the origin offers no more than was asked for (--max-quality)
        initialBitrate: { video: Number(query.get('start') || 700) }, // kbit/s; a modest start, then up
      },
    },
  });

  let state = STATE.UNSTARTED;
  let shown = null;
  let representations = [];
  const listeners = {};
  const emit = (name, data) => (listeners[name] || []).forEach((listener) => listener({ target: player, data }));

  function setState(next) {
    if (next === state) return;
    state = next;
    player.classList.toggle('unstarted-mode', next === STATE.UNSTARTED);
    player.classList.toggle('playing-mode', next === STATE.PLAYING);
    player.classList.toggle('paused-mode', next === STATE.PAUSED);
    player.classList.toggle('buffering-mode', next === STATE.BUFFERING);
    player.classList.toggle('ended-mode', next === STATE.ENDED);
    emit('onStateChange', next);
  }

  const bufferAhead = () => {
    for (let i = 0; i < video.buffered.length; i++) {
      if (video.buffered.start(i) <= video.currentTime + 0.1 && video.currentTime <= video.buffered.end(i)) {
        return video.buffered.end(i) - video.currentTime;
      }
    }
    return 0;
  };

  video.addEventListener('playing', () => setState(STATE.PLAYING));
  video.addEventListener('waiting', () => setState(STATE.BUFFERING));
  video.addEventListener('pause', () => setState(video.ended ? STATE.ENDED : STATE.PAUSED));
  video.addEventListener('ended', () => setState(STATE.ENDED));
  video.addEventListener('resize', () => {
    const quality = nameOf(video.videoHeight);
    if (quality === shown) return;
    shown = quality;
    emit('onPlaybackQualityChange', quality);
  });
  dash.on('manifestLoaded', ({ data }) => {
    representations = data.Period.flatMap((period) => period.AdaptationSet)
      .filter((set) => set.contentType === 'video').flatMap((set) => set.Representation);
  });
  dash.on('error', (event) => {
    window.playerError = `${event.error.code}: ${event.error.message}`;
    emit('onError', event.error.code);
  });

  setInterval(() => {
    if (document.activeElement !== player) return;
    const clock = (t) => `${Math.floor(t / 60)}:${String(Math.floor(t % 60)).padStart(2, '0')}`;
    part('play-progress').style.transform = `scaleX(${video.currentTime / video.duration || 0})`;
    part('load-progress').style.transform = `scaleX(${player.getVideoLoadedFraction()})`;
    part('time-display').textContent = `${clock(video.currentTime)} / ${clock(video.duration || 0)}`;
    part('quality-label').textContent = player.getPlaybackQualityLabel();
  }, 500);
  part('play-button').addEventListener('click', () => (video.paused ? video.play() : video.pause()));

  const kbps = () => Math.round(dash.getAverageThroughput('video') || 0);

  Object.assign(player, {
    playVideo: () => { video.play().catch(() => {}); },
    pauseVideo: () => video.pause(),
    stopVideo: () => dash.reset(),
    seekTo: (seconds) => { video.currentTime = seconds; },
    mute: () => { video.muted = true; },
    unMute: () => { video.muted = false; },
    isMuted: () => video.muted,
    getCurrentTime: () => video.currentTime,
    getDuration: () => video.duration || 0,
    getPlayerState: () => state,
    getVideoLoadedFraction: () => (video.currentTime + bufferAhead()) / video.duration || 0,
    getVideoUrl: () => location.href,
    getVideoData: () => ({ video_id: query.get('v') || '', title: document.title, author: 'Sojourn' }),
    getPlaybackRate: () => video.playbackRate,
    getPlaybackQuality: () => (video.videoHeight ? nameOf(video.videoHeight) : 'unknown'),
    getPlaybackQualityLabel: () => (video.videoHeight ? `${video.videoHeight}p` : ''),
    getAvailableQualityLevels: () =>
      [...representations].sort((a, b) => b.height - a.height).map((r) => nameOf(r.height)).concat('auto'),
    setPlaybackQualityRange(lowest, highest = lowest) {
      const rate = (quality) => {
        const found = representations.find((r) => r.height === heightOf(quality));
        return { video: found ? found.bandwidth / 1000 : -1 }; // -1: no limit
      };
      dash.updateSettings({ streaming: { abr: { minBitrate: rate(lowest), maxBitrate: rate(highest) } } });
    },
    setPlaybackQuality: (quality) => player.setPlaybackQualityRange(quality, quality),
    getStatsForNerds() {
      const frames = video.getVideoPlaybackQuality();
      const now = dash.getCurrentRepresentationForType('video');
      const best = Math.max(0, ...representations.map((r) => r.height));
      const size = (height) => {
        const found = representations.find((r) => r.height === height);
        return found ? `${found.width}x${found.height}@${Math.round(now?.frameRate || 30)}` : '-';
      };
      return {
        video_id_and_cpn: `${query.get('v') || ''} / -`,
        dims_and_frames:
          `${video.clientWidth}x${video.clientHeight} / ` +
          `${frames.droppedVideoFrames} dropped of ${frames.totalVideoFrames}`,
        resolution: `${size(video.videoHeight)} / ${size(best)}`,
        codecs: now?.codecs || '',
        bandwidth_kbps: `${kbps()} Kbps`,
        buffer_health_seconds: `${bufferAhead().toFixed(2)} s`,
        date: new Date().toString(),
      };
    },
    addEventListener(name, listener, options) {
      if (!name.startsWith('on')) return HTMLElement.prototype.addEventListener.call(player, name, listener, options);
      (listeners[name] ||= []).push(listener);
    },
  });

  window.sojournDash = dash; // for a look from the console
  setState(STATE.BUFFERING);
  dash.attachView(video);
  dash.setAutoPlay(true);
  dash.attachSource(query.get('mpd') || 'media/manifest.mpd');
})();
