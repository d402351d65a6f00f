# SPDX-License-Identifier: Apache-2.0
"""The SABR stand-in's wire format both ways against npm's googlevideo: each reads what the other writes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sojourn.apps.standins import origin
from sojourn.apps.standins.sabr import wire
from sojourn.apps.standins.sabr.page import HERE, client_version

#: Reads what the server writes (its only argument), prints it as JSON, and writes a request for the server.
SCRIPT = """
import { readFileSync, writeFileSync } from 'node:fs';
import { CompositeBuffer, UmpReader } from 'googlevideo/ump';
import {
  FormatInitializationMetadata, MediaHeader, NextRequestPolicy, SabrError, UMPPartId, VideoPlaybackAbrRequest,
} from 'googlevideo/protos';
import { concatenateChunks } from 'googlevideo/utils';

const messages = {
  [UMPPartId.NEXT_REQUEST_POLICY]: NextRequestPolicy,
  [UMPPartId.FORMAT_INITIALIZATION_METADATA]: FormatInitializationMetadata,
  [UMPPartId.MEDIA_HEADER]: MediaHeader,
  [UMPPartId.SABR_ERROR]: SabrError,
};
const read = [];
new UmpReader(new CompositeBuffer([new Uint8Array(readFileSync('answer'))])).read(({ type, data }) => {
  const bytes = concatenateChunks(data.chunks);
  read.push([UMPPartId[type], messages[type] ? messages[type].decode(bytes) : [...bytes.subarray(0, 3), bytes.length]]);
});
writeFileSync('request', VideoPlaybackAbrRequest.encode({
  clientAbrState: { playerTimeMs: '12345', bandwidthEstimate: '4000000', clientViewportHeight: 720, playbackRate: 1.5 },
  selectedFormatIds: [{ itag: 2 }, { itag: 100 }],
  bufferedRanges: [
    { formatId: { itag: 2 }, startTimeMs: '0', durationMs: '0', startSegmentIndex: 1, endSegmentIndex: 9 },
    { formatId: { itag: 100 }, startTimeMs: '0', durationMs: '0', startSegmentIndex: 1, endSegmentIndex: 5 },
  ],
  preferredAudioFormatIds: [],
  preferredVideoFormatIds: [{ itag: 1 }, { itag: 2 }],
  preferredSubtitleFormatIds: [],
  field1000: [],
}).finish());
console.log(JSON.stringify(read));
"""
CONTENT = bytes(range(256)) * 400


@pytest.fixture(scope="module")
def exchanged(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Any], Path]:
    folder = tmp_path_factory.mktemp("googlevideo")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder)
    origin.npm_ci(folder)
    (folder / "answer").write_bytes(
        wire.next_request_policy(12_000, 8_000, 1_500)
        + wire.initialization(3, 'video/mp4; codecs="avc1.64001f"', 330, 660_000)
        + b"".join(wire.media(0, 3, b"init", number=0, start_ms=0, duration_ms=0, rate_bps=0, chunk=32_768))
        + b"".join(
            wire.media(1, 3, CONTENT, number=7, start_ms=12_000, duration_ms=2_000, rate_bps=1_500_000, chunk=65_536)
        )
        + wire.part(wire.Part.SABR_ERROR, wire.message({1: "sabr.malformed_request", 2: 400}))
    )
    (folder / "wire.mjs").write_text(SCRIPT)
    node = shutil.which("node") or origin._npm()[0]
    done = subprocess.run(
        [node, "wire.mjs"], cwd=folder, capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), folder


def test_googlevideo_reads_what_the_server_writes(exchanged: tuple[list[Any], Path]) -> None:
    read, _ = exchanged
    assert [kind for kind, _ in read] == [
        "NEXT_REQUEST_POLICY", "FORMAT_INITIALIZATION_METADATA", "MEDIA_HEADER", "MEDIA", "MEDIA_END",
        "MEDIA_HEADER", "MEDIA", "MEDIA", "MEDIA_END", "SABR_ERROR",
    ]  # fmt: skip
    policy, described, init, _, _, header, first, second, end, error = (content for _, content in read)
    known = {
        "targetAudioReadaheadMs": 12_000, "targetVideoReadaheadMs": 12_000, "backoffTimeMs": 1_500,
        "minAudioReadaheadMs": 8_000, "minVideoReadaheadMs": 8_000,
    }  # fmt: skip
    assert known.items() <= policy.items()
    assert described["formatId"]["itag"] == 3
    assert described["mimeType"] == 'video/mp4; codecs="avc1.64001f"'
    assert (described["endSegmentNumber"], described["endTimeMs"]) == ("330", "660000")
    assert (init["isInitSeg"], init["contentLength"], init.get("sequenceNumber", 0)) == (True, "4", 0)
    assert (header["headerId"], header["itag"], header["sequenceNumber"], header["startMs"]) == (1, 3, 7, "12000")
    assert (header["durationMs"], header["contentLength"]) == ("2000", str(len(CONTENT)))
    assert (first, second) == ([1, 0, 1, 65_537], [1, 0, 1, len(CONTENT) - 65_536 + 1])
    assert end[0] == 1
    assert (error["type"], error["code"]) == ("sabr.malformed_request", 400)


def test_the_server_reads_what_googlevideo_writes(exchanged: tuple[list[Any], Path]) -> None:
    _, folder = exchanged
    assert wire.playback_request((folder / "request").read_bytes()) == wire.PlaybackRequest(
        player_time_ms=12_345, bandwidth_bps=4_000_000, selected=(2, 100), buffered={2: 9, 100: 5}
    )


def test_the_version_is_the_pinned_one() -> None:
    assert client_version() == "4.1.1"
