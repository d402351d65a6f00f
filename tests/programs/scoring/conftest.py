# SPDX-License-Identifier: Apache-2.0
"""A run directory with known content: a recording made by ffmpeg, captures written packet by packet."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

import cv2
import numpy as np
import polars as pl
import pytest
import zstandard

from sojourn.scoring.packets import per_flow
from sojourn.scoring.packets.pcapng import block
from sojourn.scoring.picture import frames, strip

START = 1_795_273_136.25  # Unix s of the first phase
SOLO, BESIDE = 10.0, 10.0
RATE_BPS = 10e6
FREEZES = [(12.0, 0.75), (15.0, 2.0)]  # (onset, length) in s from START
DROP_AT = 14.0
Segment = tuple[float, str, int, str, int, int, int, int]  # t, src, sport, dst, dport, seq, flags, payload


def record(file: Path, seconds: float, width: int = 426, height: int = 240, marked: bool = True) -> None:
    """30 fps of moving noise, `marked` with the strip; stands still in FREEZES, drops from 720p to 360p at DROP_AT."""
    command = ["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", "gray", "-s", f"{width}x{height}"]
    command += [
        "-r",
        "30",
        "-i",
        "-",
        "-c:v",
        "libx264",
        "-preset",
        "superfast",
        "-pix_fmt",
        "yuv420p",
        str(file),
    ]
    noise = np.random.default_rng(0).integers(0, 256, (height, width + 60), dtype=np.uint8)
    field = cv2.normalize(cv2.GaussianBlur(noise, (0, 0), 5), None, 0, 255, cv2.NORM_MINMAX)
    with subprocess.Popen(command, stdin=subprocess.PIPE) as ffmpeg:
        assert ffmpeg.stdin
        for i in range(round(seconds * 30)):
            t = i / 30
            number = round((t - sum(min(n, max(0.0, t - a)) for a, n in FREEZES)) * 30) + 1700
            shift = abs(number % 120 - 60)  # to and fro, without a cut
            image = field[:, shift : shift + width].copy()
            box = strip.Box.bottom(width, height)
            if marked:
                image[box.y :] = strip.render(number % 1800, 3 if t < DROP_AT else 1, width, height)
            ffmpeg.stdin.write(image.tobytes())
    assert ffmpeg.returncode == 0


def pcapng(file: Path, segments: Iterable[tuple[Segment, int]]) -> None:
    """Write a dumpcap-like file of (segment, ECN codepoint) with an interface statistics block."""
    out = [block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))]
    out.append(block(1, struct.pack("<HHI", 1, 0, 128) + struct.pack("<HHB3xHH", 9, 1, 9, 0, 0)))
    for (t, src, sport, dst, dport, seq, flags, payload), ecn in segments:
        ns = round(t * 1e9)
        ip = struct.pack(">BBHHHBBHII", 0x45, ecn, 52 + payload, 0, 0x4000, 64, 6, 0,
                         per_flow.address(src), per_flow.address(dst))  # fmt: skip
        tcp = struct.pack(">HHIIHHHH12x", sport, dport, seq % 2**32, 0, 0x8000 | flags, 65535, 0, 0)
        frame = bytes(12) + b"\x08\x00" + ip + tcp
        head = struct.pack("<IIIII", 0, ns >> 32, ns & 0xFFFFFFFF, len(frame), len(frame) + payload)
        out.append(block(6, head + frame))
    out.append(block(5, struct.pack("<III", 0, 0, 0) + struct.pack("<HHQHH", 5, 8, 0, 0, 0)))
    file.write_bytes(zstandard.compress(b"".join(out)))


def flow(start: float, end: float, bps: float, src: str, sport: int, dst: str, dport: int, syn: int) -> list[Segment]:
    """A TCP flow of 1448-byte segments at a steady rate that begins with a SYN of the given flags."""
    step = 1448 * 8 / bps
    count = int((end - start) / step)
    found: list[Segment] = [(start, src, sport, dst, dport, 99, syn, 0)]
    found += [(start + (i + 0.5) * step, src, sport, dst, dport, 100 + 1448 * i, 0x10, 1448) for i in range(count)]
    # An acknowledgement for every tenth.
    return found + [(t + 1e-4, dst, dport, src, sport, 7, 0x10, 0) for t, *_ in found[1::10]]


def socket(t: float, start: float) -> dict[str, object]:
    """A sample of the contender's socket, which has had data to send since `start`."""
    name = "10.42.2.20:40001>10.42.1.20:5201"
    limited = {"rwnd_limited_ms": 0, "sndbuf_limited_ms": 0}
    return {"t": t, "flow": name, "cc": "prague", "busy_ms": round((t - start) * 1e3), **limited}


_read: dict[tuple[object, ...], pl.DataFrame] = {}


@pytest.fixture(autouse=True)
def films_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decode a film once in a session, which is most of what scoring takes: most tests damage another file."""
    read = frames.read_recording

    def once(video: Path, *how: object) -> pl.DataFrame:
        key = (hashlib.sha256(video.read_bytes()).digest(), *how)
        if key not in _read:
            _read[key] = read(video, *how)  # type: ignore[arg-type]
        return _read[key]

    monkeypatch.setattr(frames, "read_recording", once)


@pytest.fixture
def run(tmp_path: Path, recorded: Path) -> Path:
    """A copy of the recorded run, to be spoiled."""
    return Path(shutil.copytree(recorded, tmp_path / "run"))


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Solo 10 s, Prague 10 s: the victim goes from 4 to 2 Mbit/s and 720p to 360p, with two stalls."""
    tmp_path = tmp_path_factory.mktemp("recorded")
    middle, end = START + SOLO, START + SOLO + BESIDE
    phases = [
        {"name": "solo", "contender": None, "start": START, "end": middle},
        {"name": "prague", "contender": "prague", "start": middle, "end": end},
    ]
    sites = {"client": "10.42.1.10", "receiver": "10.42.1.20", "server": "10.42.2.10", "sender": "10.42.2.20"}
    lab = {
        "addresses": sites, "ports": {"origin": 443, "bulk": 5201}, "rtt_ms": 20,
        "rate_down_bps": RATE_BPS, "rate_up_bps": RATE_BPS,
        "qdisc_down": "fq_codel flows 1", "qdisc_up": "fq_codel flows 1",
        "clip": {"frames": 1800, "fps": 30, "heights": [240, 360, 480, 720, 1080]},
    }  # fmt: skip
    bulk = {
        "flows": [{"contender": "prague", "phase": "prague", "sender_port": 40001, "start": middle, "end": end + 0.2}]
    }
    for name, content in (("timeline", {"phases": phases}), ("lab", lab), ("bulk", bulk)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))

    record(tmp_path / "screen.mp4", SOLO + BESIDE)
    frames = round((SOLO + BESIDE) * 30)
    screen = {"start": START, "fps": 30, "frames": frames, "expected": frames, "missing": 0}
    (tmp_path / "screen.json").write_text(json.dumps(screen))

    victim = ("10.42.2.10", 443, "10.42.1.10", 50000, 0x12)
    # A keep-alive before and after makes the capture as long as the run.
    segments = [(s, 0) for s in flow(START - 1, middle, 4e6, *victim)]
    segments += [(s, 0) for s in flow(middle, end + 1, 2e6, *victim[:3], 50001, 0x12)]
    prague = flow(middle, end, 7e6, "10.42.2.20", 40001, "10.42.1.20", 5201, 0x1C2)
    sent = [(s, 1 if s[7] else 0) for s in prague]
    arrived = [(s, 3 if ecn and i % 25 == 0 else ecn) for i, (s, ecn) in enumerate(sent)]
    pcapng(tmp_path / "server.pcapng.zst", sorted(segments + sent))
    pcapng(tmp_path / "client.pcapng.zst", sorted(segments + arrived))

    for name, wait in (("irtt", 30.0), ("irtt-unshaped", 0.5)):
        trips = []
        for i in range(2200):
            t = START - 1 + i / 100
            rtt = 20.2 + (wait * (i % 100) / 100 if t >= middle else 0.3 * (i % 100) / 100)
            send = {"client": {"send": {"wall": round(t * 1e9)}}}
            trips.append({"lost": "false", "timestamps": send, "delay": {"rtt": round(rtt * 1e6)}})
        (tmp_path / f"{name}.json.gz").write_bytes(gzip.compress(json.dumps({"round_trips": trips}).encode()))

    ticks = [START + i for i in range(20)]
    queue = [{"kind": "htb", "options": {}}, {"kind": "fq_codel", "options": {"limit": 10240, "flows": 1}}]
    lines = {
        "host": [
            {"t": t, "cpu_cores_used": 1.0 + (t == ticks[5]) / 2, "cpu_idle_cores": 1.0, "stall_ms": 3.0} for t in ticks
        ],
        "player": [{"t": t, "playing": True, "height": 720} for t in ticks],
        "qdisc": [{"t": t, "dev": dev, "qdiscs": queue} for t in ticks for dev in ("lan", "wan")],
        "ss": [socket(t, ticks[10]) for t in ticks[10:]],
    }
    for name, rows in lines.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path
