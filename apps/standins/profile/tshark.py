# SPDX-License-Identifier: Apache-2.0
"""Packet captures from anyone: tshark decrypts and dissects them, confined to the capture and its keys."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from sojourn.apps.standins.profile.recorded import ServiceProfileError
from sojourn.hardware.confine.decoder import decoder
from sojourn.hardware.machine.files import plain
from sojourn.hardware.machine.messages import printable
from sojourn.hardware.machine.programs import Tool, find, install_command, version

LARGEST = 512 << 20
"""Largest capture that is read, bytes: 5 minutes of film at 10 Mbit/s. tshark takes three times as much memory."""
_MOST_PACKETS = 2_000_000
#: Most bytes that tshark prints about one packet, and about all answers whose bodies are read.
_LARGEST_PACKET, _LARGEST_BODIES = 16 << 20, 256 << 20
_LARGEST_KEYS = 64 << 20
_TSHARK = Tool("tshark", "tshark")
#: pcapng, and pcap of either byte order with micro- or nanoseconds.
_MAGIC = tuple(map(bytes.fromhex, ("0a0d0d0a", "a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1")))
_SUFFIXES = {".pcap", ".pcapng", ".cap"}
#: https://www.ietf.org/archive/id/draft-ietf-tls-keylogfile-02.html
_KEY = re.compile(rb"^(?:CLIENT_RANDOM|[A-Z_]+_SECRET(?:_\d)?) [0-9a-fA-F]{64} [0-9a-fA-F]{64,128}\r?$", re.MULTILINE)
#: Without the first, nothing after a packet that overtook another is decrypted.
_SETTINGS = ("tcp.reassemble_out_of_order:TRUE", "http.decompress_body:TRUE")
_SAID = re.compile(r"^tshark: (.*)", re.MULTILINE)

Packet = Mapping[str, Sequence[str]]
"""The values of a packet's fields, in the order of the packet, by names with _ instead of dots."""


def is_capture(file: Path) -> bool:
    """Whether a file is a packet capture by its first bytes, or by its name. Raises ServiceProfileError."""
    return _beginning(file, 4) in _MAGIC or not _SUFFIXES.isdisjoint(file.suffixes)


def _beginning(file: Path, most: int) -> bytes:
    try:
        with open(file, "rb", opener=plain) as opened:
            return opened.read(most)
    except OSError as wrong:
        raise ServiceProfileError(f"{file}: {wrong.strerror}", code="unreadable-file") from wrong


@dataclass(frozen=True)
class CaptureFile:
    """A capture and the log of its TLS keys; None: the capture has the keys itself, or needs none."""

    file: Path
    keys: Path | None = None

    def check(self) -> None:
        """Raise ServiceProfileError, before anything is decrypted, if tshark is missing or a file cannot be used."""
        if _beginning(self.file, 4) not in _MAGIC:
            said = "not a packet capture (pcap, pcapng); unpack it first if it is compressed"
            raise ServiceProfileError(f"{self.file}: {said}", code="damaged")
        if (size := self.file.stat().st_size) > LARGEST:
            said = f"{size >> 20} MiB; give at most {LARGEST >> 20} MiB, such as two minutes of the film"
            raise ServiceProfileError(f"{self.file}: {said}", code="too-large")
        if self.keys and not _KEY.search(_beginning(self.keys, _LARGEST_KEYS)):
            raise ServiceProfileError(
                f"--keys={self.keys}: not a log of TLS keys; start the browser with SSLKEYLOGFILE={self.keys.name}",
                code="bad-key",
            )
        if not find("tshark"):
            raise ServiceProfileError(f"tshark is missing: {install_command([_TSHARK])}", code="missing-program")

    @property
    def recorder(self) -> str:
        """The program that reads the capture, with its version."""
        return f"tshark {version(_TSHARK)}"

    def packets(self, fields: Iterable[str]) -> Generator[Packet, None, None]:
        """Yield the packets with the fields that they have, by tshark's names. Raises ServiceProfileError."""
        chosen = [word for field in fields for word in ("-e", field)]
        with self._tshark("-c", str(_MOST_PACKETS + 1), "-T", "ek", *chosen) as out:
            number = 0
            for line in iter(partial(out.readline, _LARGEST_PACKET), b""):
                if line.startswith(b'{"timestamp"'):
                    number += 1
                    if number > _MOST_PACKETS:
                        raise ServiceProfileError(
                            f"{self.file}: more than {_MOST_PACKETS} packets; capture two minutes of the film",
                            code="too-large",
                        )
                    yield self._parsed(line)["layers"]

    def answers(self, numbers: Sequence[int]) -> Iterator[Mapping[str, Any]]:
        """Yield the layers frame, http and http2 of the packets with these numbers. Raises ServiceProfileError."""
        chosen = f"frame.number in {{{', '.join(map(str, numbers))}}}"
        layers = ("-T", "json", "--no-duplicate-keys", "-J", "frame http http2")
        with self._tshark("-Y", chosen, *layers) as out:
            text = out.read(_LARGEST_BODIES + 1)
            if len(text) > _LARGEST_BODIES:
                raise ServiceProfileError(f"{self.file}: its manifests are too large", code="too-large")
        for packet in self._parsed(text):
            yield packet["_source"]["layers"]

    def _parsed(self, text: bytes) -> Any:
        try:
            return json.loads(text.decode(errors="replace"), strict=False)
        except (ValueError, RecursionError) as wrong:
            raise ServiceProfileError(f"{self.file}: cannot be read: tshark printed no JSON", code="damaged") from wrong

    @contextmanager
    def _tshark(self, *arguments: str) -> Iterator[IO[bytes]]:
        """Run tshark on the capture and yield what it prints. Raises ServiceProfileError if it fails."""
        file = self.file.absolute()
        reads = [file, *([self.keys.absolute()] if self.keys else [])]
        with tempfile.TemporaryFile() as said, decoder("tshark", reads) as ready:
            settings = [*_SETTINGS, *(f"tls.keylog_file:{ready.names[it]}" for it in reads[1:])]
            options = [word for setting in settings for word in ("-o", setting)]
            command = [*ready.command, "-n", "-r", ready.names[file], *options, *arguments]
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said) as tshark:
                assert tshark.stdout
                try:
                    yield tshark.stdout
                except BaseException:
                    tshark.kill()
                    raise
            if tshark.returncode:
                said.seek(0)
                raise self._failure(said.read(1 << 16).decode(errors="replace"))

    def _failure(self, said: str) -> ServiceProfileError:
        if "cut short" in said:
            return ServiceProfileError(
                f"{self.file}: its end is cut off; stop the capture with Ctrl-C, and copy the whole file",
                code="truncated",
            )
        words = _SAID.findall(said) or ["tshark ended early"]
        return ServiceProfileError(f"{self.file}: cannot be read: {printable(words[-1])[:200]}", code="damaged")
