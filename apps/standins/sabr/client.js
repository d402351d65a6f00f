// SPDX-License-Identifier: Apache-2.0
// The client of the SABR stand-in: it reports what it has and how fast it came, and plays what the server sends.
// Reader, parts and messages are googlevideo's. Query: rungs as ITAG:LINES:BIT/S. `window.player` has the lines of its picture.
import { CompositeBuffer, UmpReader } from 'googlevideo/ump';
import {
  FormatInitializationMetadata, MediaHeader, NextRequestPolicy, SabrError, UMPPartId, VideoPlaybackAbrRequest,
} from 'googlevideo/protos';
import { concatenateChunks } from 'googlevideo/utils';

const query = new URLSearchParams(location.search);
const rungs = new Map(query.get('rungs').split(',').map((rung) => rung.split(':').map(Number)).map(([itag, ...rest]) => [itag, rest]));
const video = document.querySelector('video');
const source = new MediaSource();
const RETRY_MS = 500;
const LEAST = 4096; // bytes of an answer with film
const ESTIMATED = 3; // answers of which the throughput is the mean

const now = () => Math.round((performance.timeOrigin + performance.now()) * 1e3) / 1e6;
const fail = (text) => { window.playerError ||= text; };
const formats = new Map(); // kind of media → its format, source buffer, and queue of what to append
const answers = []; // [bytes, ms] of the newest
let waitUntil = 0; // performance.now() until which the server wants no request
let requests = 0;
let played = false;
let stalls = 0;

window.player = {
  shown: () => video.videoHeight,
  best: () => Math.max(...[...rungs.values()].map(([lines]) => lines)),
};
video.addEventListener('playing', () => { played = true; });
video.addEventListener('waiting', () => { stalls += played; });
video.addEventListener('error', () => fail(video.error.message));

const ahead = () => {
  const { buffered, currentTime } = video;
  for (let i = 0; i < buffered.length; i++) {
    if (buffered.start(i) <= currentTime + 0.1 && currentTime <= buffered.end(i)) return buffered.end(i) - currentTime;
  }
  return 0;
};

function throughput() {
  const newest = answers.slice(-ESTIMATED);
  const [bytes, ms] = newest.reduce(([b, t], [bytes_, ms_]) => [b + bytes_, t + ms_], [0, 0]);
  return ms > 0 ? Math.round((bytes * 8000) / ms) : 0;
}

function append(track, data) {
  if (data) track.queue.push(data);
  if (!track.buffer.updating && track.queue.length) track.buffer.appendBuffer(track.queue.shift());
}

function begin({ formatId, mimeType }) {
  const kind = mimeType.split('/', 1)[0];
  let track = formats.get(kind);
  if (!track) {
    track = { buffer: source.addSourceBuffer(mimeType), queue: [], last: 0 };
    track.buffer.addEventListener('updateend', () => append(track));
    track.buffer.addEventListener('error', () => fail(`the browser refuses the ${kind}`));
    formats.set(kind, track);
  }
  track.itag = formatId.itag;
}

function note(header) {
  const [height, bps] = rungs.get(header.itag);
  window.__sojourn?.keep({
    t: now(),
    event: 'decision',
    detail: {
      segment: header.sequenceNumber,
      height,
      rate_bps: bps,
      buffer_s: Math.round(ahead() * 1e3) / 1e3,
      throughput_bps: throughput() || null,
      stalls,
    },
  });
}

// Takes one part of an answer; `open` are the segments that it has begun, by the number of their header.
function take({ type, data }, open) {
  const bytes = concatenateChunks(data.chunks);
  switch (type) {
    case UMPPartId.NEXT_REQUEST_POLICY:
      waitUntil = performance.now() + (NextRequestPolicy.decode(bytes).backoffTimeMs || 0);
      break;
    case UMPPartId.FORMAT_INITIALIZATION_METADATA:
      begin(FormatInitializationMetadata.decode(bytes));
      break;
    case UMPPartId.MEDIA_HEADER: {
      const header = MediaHeader.decode(bytes);
      open.set(header.headerId, { header, chunks: [] });
      if (header.sequenceNumber && rungs.has(header.itag)) note(header);
      break;
    }
    case UMPPartId.MEDIA:
      open.get(bytes[0]).chunks.push(bytes.subarray(1));
      break;
    case UMPPartId.MEDIA_END: {
      const { header, chunks } = open.get(bytes[0]);
      open.delete(bytes[0]);
      const track = [...formats.values()].find(({ itag }) => itag === header.itag);
      append(track, concatenateChunks(chunks));
      if (header.sequenceNumber) track.last = header.sequenceNumber;
      else track.headed = header.itag; // only now: an answer may break off within the initialisation segment
      break;
    }
    case UMPPartId.SABR_ERROR:
      throw new Error(SabrError.decode(bytes).type);
    default: // others are not for this client
  }
}

function state() {
  const tracks = [...formats.values()];
  return VideoPlaybackAbrRequest.encode({
    clientAbrState: {
      playerTimeMs: String(Math.round(video.currentTime * 1000)),
      bandwidthEstimate: String(throughput()),
      clientViewportWidth: video.clientWidth,
      clientViewportHeight: video.clientHeight,
      visibility: 1,
      playbackRate: video.playbackRate,
    },
    selectedFormatIds: tracks.filter(({ headed }) => headed).map(({ headed }) => ({ itag: headed })),
    bufferedRanges: tracks.filter(({ last }) => last).map(({ itag, last }) => ({
      formatId: { itag }, startTimeMs: '0', durationMs: '0', startSegmentIndex: 1, endSegmentIndex: last,
    })),
    preferredAudioFormatIds: [],
    preferredVideoFormatIds: [...rungs.keys()].map((itag) => ({ itag })),
    preferredSubtitleFormatIds: [],
    field1000: [],
  }).finish();
}

const sleep = (ms) => (ms > 0 ? new Promise((resolve) => { setTimeout(resolve, ms); }) : null);

// Returns whether the answer had film.
async function request() {
  const body = state();
  const started = performance.now();
  const response = await fetch(`/videoplayback?rn=${requests++}`, { method: 'POST', body });
  const reader = response.body.getReader();
  const open = new Map();
  let rest = new CompositeBuffer();
  let size = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    rest.append(value);
    const umpReader = new UmpReader(rest);
    umpReader.read((part) => take(part, open));
    rest = umpReader.compositeBuffer;
  }
  const filled = size > LEAST;
  if (filled) answers.push([size, performance.now() - started]);
  return filled;
}

async function play() {
  for (;;) {
    await sleep(waitUntil - performance.now());
    try {
      if (!await request()) await sleep(RETRY_MS); // the end of the film, or no room yet
    } catch (error) {
      if (!(error instanceof TypeError)) return fail(String(error)); // a TypeError is fetch's: the network failed
      await sleep(RETRY_MS);
    }
  }
}

source.addEventListener('sourceopen', () => {
  URL.revokeObjectURL(video.src);
  play();
  video.play();
}, { once: true });
video.src = URL.createObjectURL(source);
