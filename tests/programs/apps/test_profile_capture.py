# SPDX-License-Identifier: Apache-2.0
"""`sojourn profile` of packet captures of a site whose sizes are known, and of those that show nothing.

captures/: curl fetched the site below from Caddy over HTTP/1.1 and HTTP/2 with SSLKEYLOGFILE, three requests a second;
its master playlist was compressed by brotli, the first media playlist by gzip.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.apps.standins.har import Har
from sojourn.apps.standins.profile.from_capture import read_capture
from sojourn.apps.standins.profile.from_har import profile_of
from sojourn.apps.standins.profile.recorded import ServiceProfile, ServiceProfileError, read_profile
from sojourn.hardware.machine.errors import Code
from sojourn.harness.cli import app
from sojourn.scoring.packets.pcapng import INTERFACE, PACKET, SECTION, SECTION_BODY, block, blocks
from tests.refusals import refusal

CAPTURES = Path(__file__).parent / "captures"
HEIGHTS = (240, 240, 480, 480, 480, 480, 480, 480)
_SECRETS, _TLS_KEYS = 10, 0x544C534B
Blocks = list[tuple[int, bytes]]


def size(height: int, index: int) -> int:
    return height * 4 + index * 7


def keys(name: str) -> Path:
    return CAPTURES / f"{name}.keys"


def written(file: Path, content: Sequence[tuple[int, bytes]]) -> Path:
    file.write_bytes(b"".join(block(kind, body) for kind, body in content))
    return file


def changed(name: str, file: Path, change: Callable[[bytes], bytes]) -> Path:
    """Write a capture whose packets are those of `name`, after `change`."""
    return written(
        file, [(kind, change(body) if kind == PACKET else body) for kind, body in blocks(CAPTURES / f"{name}.pcapng")]
    )


def require_known(profile: ServiceProfile) -> None:
    assert (profile.service, profile.segment_s, profile.recorder[:7]) == ("tv.test", 2.0, "tshark ")
    assert [(it.height, it.bandwidth) for it in profile.rendition] == [(240, 4000), (480, 8000)]
    for index, height in enumerate(HEIGHTS):
        (sizes,) = (it.sizes for it in profile.rendition if it.height == height)
        assert sizes[index] == size(height, index)
    assert [it.recorded for it in profile.rendition] == [2, 6]
    shown = profile.visible
    assert shown.pause_s == pytest.approx(1 / 3, abs=0.02)
    assert shown.rtt_ms and shown.first_byte_ms and shown.rtt_ms < shown.first_byte_ms < 10
    assert (shown.ecn, shown.ce_share) == ("not-ect", None)


@pytest.mark.parametrize(("name", "protocol", "request_bytes"), [("h1", "http/1.1", 131), ("h2", "h2", 28)])
def test_a_capture_shows_every_size_and_the_path(name: str, protocol: str, request_bytes: int) -> None:
    profile = profile_of(read_capture(CAPTURES / f"{name}.pcapng", keys(name)))
    require_known(profile)
    assert (profile.protocol, profile.visible.request_bytes) == (protocol, request_bytes)


def test_the_command_takes_keys_that_the_capture_has_itself(tmp_path: Path) -> None:
    log = keys("h2").read_bytes()
    secrets = struct.pack("<II", _TLS_KEYS, len(log)) + log + bytes(-len(log) % 4)
    section, *rest = blocks(CAPTURES / "h2.pcapng")
    file = written(tmp_path / "own.pcapng", [section, (_SECRETS, secrets), *rest])
    done = CliRunner().invoke(app, ["profile", str(file), "-o", str(tmp_path / "a.toml")])
    assert done.exit_code == 0, done.output
    require_known(read_profile(tmp_path / "a.toml"))


def from_server(body: bytes) -> bool:
    return struct.unpack(">H", body[54:56]) == (9443,)


def test_a_packet_that_overtook_another_is_no_loss(tmp_path: Path) -> None:
    """The body of an answer comes before its head."""
    content = [*blocks(CAPTURES / "h2.pcapng")]
    bodies = [at for at, (_, body) in enumerate(content) if len(body) > 900 and from_server(body)][-6:]
    assert all(from_server(content[at - 1][1]) for at in bodies)
    for at in bodies:
        head, body = content[at - 1][1], content[at][1]
        content[at - 1 : at + 1] = [(PACKET, head[:12] + body[12:]), (PACKET, body[:12] + head[12:])]
    require_known(profile_of(read_capture(written(tmp_path / "a.pcapng", content), keys("h2"))))


def test_ecn_of_the_servers_packets(tmp_path: Path) -> None:
    """Every packet is ECT(1), those from the server of more than 1000 bytes are CE."""

    def mark(body: bytes) -> bytes:
        return body[:35] + bytes([3 if from_server(body) and len(body) > 1000 else 1]) + body[36:]

    shown = profile_of(read_capture(changed("h2", tmp_path / "a.pcapng", mark), keys("h2"))).visible
    assert shown.ecn == "ect1"
    assert shown.ce_share and 0.1 < shown.ce_share < 0.6


def cut(body: bytes) -> bytes:
    kept = body[20 : 20 + min(128, len(body) - 20)]
    return body[:12] + struct.pack("<I", min(struct.unpack("<I", body[12:16])[0], len(kept))) + body[16:20] + kept


def only(name: str, file: Path, *, first: int) -> Path:
    packets = 0
    kept: Blocks = []
    for kind, body in blocks(CAPTURES / f"{name}.pcapng"):
        packets += kind == PACKET
        if kind != PACKET or packets <= first:
            kept.append((kind, body))
    return written(file, kept)


def without_http(file: Path) -> Path:
    return only("h2", file, first=3)


def empty(file: Path) -> Path:
    return written(file, [(SECTION, SECTION_BODY), (INTERFACE, struct.pack("<HHI", 1, 0, 0))])


def broken(file: Path) -> Path:
    file.write_bytes((CAPTURES / "h2.pcapng").read_bytes()[:-50])
    return file


def nonsense(file: Path) -> Path:
    file.write_bytes((CAPTURES / "h2.pcapng").read_bytes()[:200] + b"\x07" * 900)
    return file


def text(file: Path) -> Path:
    file.write_text("hello")
    return file


@pytest.mark.parametrize(
    ("make", "key", "code", "mentioned"),
    [
        (lambda file: changed("h2", file, bytes), None, "bad-key", "--keys=FILE"),
        (lambda file: changed("h2", file, bytes), "h1", "bad-key", "no key in"),
        (lambda file: changed("h2", file, cut), "h2", "truncated", "cut to 128 bytes"),
        (broken, "h2", "truncated", "end is cut off"),
        (nonsense, "h2", "damaged", "cannot be read"),
        (text, "h2", "damaged", "not a packet capture"),
        (empty, "h2", "missing", "no packets"),
        (without_http, "h2", "missing", "no answers over HTTP"),
    ],
    ids=["no keys", "other keys", "cut", "broken", "nonsense", "text", "empty", "no http"],
)
def test_a_broken_or_hostile_capture_gets_one_clear_line(
    make: Callable[[Path], Path], key: str | None, code: Code, mentioned: str, tmp_path: Path
) -> None:
    file = make(tmp_path / "a.pcapng")
    with refusal(ServiceProfileError, code, file, mentioned):
        read_capture(file, keys(key) if key else None)
    arguments = ["profile", str(file), *([f"--keys={keys(key)}"] if key else []), "-o", str(tmp_path / "a.toml")]
    done = CliRunner().invoke(app, arguments)
    assert (done.exit_code, done.output.count("\n")) == (1, 1), done.output


def test_a_capture_without_video_is_refused_as_a_har_is(tmp_path: Path) -> None:
    file = only("h2", tmp_path / "a.pcapng", first=24)
    read: Har = read_capture(file, keys("h2"))
    assert len(read.exchanges) <= 3 and read.exchanges[0].body
    done = CliRunner().invoke(app, ["profile", str(file), f"--keys={keys('h2')}", "-o", str(tmp_path / "a.toml")])
    assert done.exit_code == 1 and done.output.count("\n") == 1 and "no video among" in done.output


def test_keys_without_effect_are_refused(tmp_path: Path) -> None:
    (har := tmp_path / "a.har").write_text("{}")
    (log := tmp_path / "keys.log").write_text("no keys")
    capture = str(CAPTURES / "h2.pcapng")
    for arguments, mentioned in (
        ([str(har), f"--keys={log}"], "is no packet capture"),
        (["--live=https://a.test/", f"--keys={log}"], "is no packet capture"),
        ([capture, f"--keys={log}"], "not a log of TLS keys"),
        ([capture, f"--keys={tmp_path / 'none'}"], "No such file"),
        ([capture, f"--keys={log}", "-o", str(log)], "is the log of keys"),
    ):
        done = CliRunner().invoke(app, ["profile", *arguments, *([] if "-o" in arguments else ["-o", "a.toml"])])
        assert done.exit_code == 1 and done.output.count("\n") == 1 and mentioned in done.output, done.output
    assert log.read_text() == "no keys"
