# SPDX-License-Identifier: Apache-2.0
"""A recording is what recorders write: no content of screen.mp4 opens another file, or takes memory without limit."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.scoring.picture.frames import read_recording
from sojourn.scoring.picture.recording import RecordingError, decode, frame_times, picture_size


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second of pictures of 64x36 px."""
    file = tmp_path_factory.mktemp("film") / "screen.mp4"
    source = ["-f", "lavfi", "-i", "testsrc2=s=64x36:r=30:d=1", "-c:v", "libx264", "-pix_fmt", "yuv420p"]
    subprocess.run(["ffmpeg", "-v", "error", *source, str(file)], check=True)
    return file


def test_a_recording_is_read(film: Path) -> None:
    """Else the tests below could not fail."""
    assert len(frame_times(film)) == 30 and picture_size(film) == (64, 36)
    assert sum(1 for _ in decode(film, "format=gray", 64, 36)) == 30


def hls(film: Path, place: Path) -> bytes:
    return f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{film}\n#EXT-X-ENDLIST\n".encode()


def concat(film: Path, place: Path) -> bytes:
    return f"ffconcat version 1.0\nfile {film}\n".encode()


def dash(film: Path, place: Path) -> bytes:
    return (
        '<?xml version="1.0"?>'
        '<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT1S">'
        '<Period><AdaptationSet mimeType="video/mp4"><Representation id="a" bandwidth="1">'
        f"<BaseURL>file://{film}</BaseURL></Representation></AdaptationSet></Period></MPD>"
    ).encode()


def sdp(film: Path, place: Path) -> bytes:
    lines = ["v=0", "o=- 0 0 IN IP4 127.0.0.1", "s=x", "c=IN IP4 127.0.0.1", "t=0 0", "m=video 5004 RTP/AVP 96"]
    return "\n".join([*lines, "a=rtpmap:96 H264/90000", ""]).encode()


def matroska(film: Path, place: Path) -> bytes:
    subprocess.run(["ffmpeg", "-v", "error", "-i", str(film), "-c", "copy", str(place / "x.mkv")], check=True)
    return (place / "x.mkv").read_bytes()


def another_codec(film: Path, place: Path) -> bytes:
    command = ["ffmpeg", "-v", "error", "-i", str(film), "-c:v", "mjpeg", str(place / "x.mp4")]
    subprocess.run(command, check=True)
    return (place / "x.mp4").read_bytes()


def elsewhere(film: Path, place: Path) -> bytes:
    """Its data reference names another file, as QuickTime lets it."""
    whole = film.read_bytes()
    at = whole.index(b"dref")
    url = b"url " + struct.pack(">I", 0) + f"file://{place / 'other.mp4'}".encode() + b"\0"
    entry = struct.pack(">I", len(url) + 4) + url
    (place / "other.mp4").write_bytes(whole)
    box = struct.pack(">I4sII", 16 + len(entry), b"dref", 0, 1) + entry
    old = struct.unpack(">I", whole[at - 4 : at])[0]
    grown = len(box) - old
    out = bytearray(whole[: at - 4] + box + whole[at - 4 + old :])
    for name in (b"dinf", b"minf", b"mdia", b"trak", b"moov"):  # what holds it grows with it
        start = out.index(name) - 4
        out[start : start + 4] = struct.pack(">I", struct.unpack(">I", out[start : start + 4])[0] + grown)
    cut = out.index(b"mdat") + 4  # nothing of the film is in this file
    return bytes(out[:cut]) + b"\0" * (len(out) - cut)


def giant_picture(film: Path, place: Path) -> bytes:
    source = ["-f", "lavfi", "-i", "color=s=16000x16:d=0.1", "-c:v", "libx264", "-pix_fmt", "yuv420p"]
    subprocess.run(["ffmpeg", "-v", "error", *source, str(place / "x.mp4")], check=True)
    return (place / "x.mp4").read_bytes()


def endless_table(film: Path, place: Path) -> bytes:
    """It says to have four thousand million frames of one size."""
    out = bytearray(film.read_bytes())
    at = out.index(b"stsz") + 4
    out[at + 4 : at + 12] = struct.pack(">II", 1, 0xFFFFFFFF)
    at = out.index(b"stts") + 4
    out[at + 4 : at + 16] = struct.pack(">III", 1, 0xFFFFFFFF, 1)
    return bytes(out)


def nothing(film: Path, place: Path) -> bytes:
    return b""


#: Reads a recording in every way.
READ = """
import sys
from pathlib import Path
from sojourn.scoring.picture import recording

for read in (recording.frame_times, recording.picture_size, lambda file: list(recording.decode(file, "null", 64, 36))):
    try:
        read(Path(sys.argv[1]))
    except recording.RecordingError:
        pass
"""
Hostile = Callable[[Path, Path], bytes]


@pytest.mark.parametrize("make", [hls, concat, dash, sdp, matroska, another_codec, elsewhere, endless_table, nothing])
def test_what_is_no_recording_is_refused_with_its_name(film: Path, tmp_path: Path, make: Hostile) -> None:
    (run := tmp_path / "run").mkdir()
    file = run / "screen.mp4"
    file.write_bytes(make(film, tmp_path))
    with pytest.raises(RecordingError, match=r"screen\.mp4"):
        read_recording(file)


@pytest.mark.parametrize("make", [hls, concat, dash, sdp, elsewhere])
def test_no_other_file_is_opened(film: Path, tmp_path: Path, make: Hostile) -> None:
    """By what the kernel was asked for."""
    (run := tmp_path / "run").mkdir()
    (run / "screen.mp4").write_bytes(make(film, tmp_path))
    traced = tmp_path / "trace"
    command = ["strace", "-f", "-qq", "-s", "500", "-e", "trace=open,openat,connect", "-o", str(traced)]
    subprocess.run([*command, sys.executable, "-c", READ, str(run / "screen.mp4")], check=True, cwd=CHECKOUT)
    asked = traced.read_text()
    assert '"0.mp4"' in asked  # which is what its decoder calls it
    assert str(film) not in asked and "other.mp4" not in asked and "sin_addr" not in asked


def test_a_picture_beyond_any_screen_is_refused_before_it_is_held(film: Path, tmp_path: Path) -> None:
    (file := tmp_path / "screen.mp4").write_bytes(giant_picture(film, tmp_path))
    with pytest.raises(RecordingError, match=r"pictures of 16000x16 px, at most 7680x4320") as refused:
        picture_size(file)
    assert "\n" not in str(refused.value)


def test_a_name_is_no_address(film: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (odd := Path("concat:a|b")).mkdir()
    (odd / "screen.mp4").write_bytes(film.read_bytes())
    assert picture_size(odd / "screen.mp4") == (64, 36)
    assert np.array(frame_times(odd / "screen.mp4")).size == 30
