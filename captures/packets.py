# SPDX-License-Identifier: Apache-2.0
"""Capture packet headers on one interface with dumpcap, as pcapng with nanosecond timestamps.

The capture goes through stdout to a local file, so that it works the same on this host, in a namespace and over ssh.
The file itself holds the count of packets that the kernel dropped (interface statistics block); `stop` returns it too.
Where only tcpdump is available, as on a host reached by ssh or in a simulated machine, its output is converted to
pcapng at the end. (dumpcap makes two system calls per packet, which costs a simulated machine a tenth of a run's time.)
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import zstandard

from sojourn.captures.pcap import PcapError, to_pcapng
from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.process import Process, ProcessError

SNAPLEN = 128  # bytes: Ethernet, IPv6 and TCP with all options fit
_BUFFER_MIB = 16  # kernel ring: 2 s of headers at 50 Mbit/s while the host is busy
_TCPDUMP = ".pcap"
_HANDOVER_S = 0.3  # the kernel delivers a partly filled ring block after 250 ms
_PATIENCE_S = 5.0  # for a capture that a busy host keeps from its ring
_ENDED = re.compile(r"Packets received/dropped on interface '.*': (\d+)/(\d+)")
_TCPDUMP_DROPPED = re.compile(r"^(\d+) packets? dropped by kernel", re.MULTILINE)


@dataclass(frozen=True)
class Captured:
    """dumpcap's counts: packets written, and packets lost by the kernel or dumpcap."""

    file: Path
    packets: int
    dropped: int


class PacketCapture:
    """A running capture. Create one with `start`, end it with `stop`."""

    def __init__(self, process: Process, raw: Path, log: Path) -> None:
        self.process, self.raw, self.log = process, raw, log

    @classmethod
    def start(
        cls,
        place: Place,
        interface: str,
        file: Path,
        *,
        only: str = "",
        snaplen: int = SNAPLEN,
        wrap: Sequence[str] = (),
        timeout: float = 15,
    ) -> PacketCapture:
        """Capture on `interface` of `place` to `file` (….pcapng); return once it captures.

        `only` is a capture filter ("tcp or udp"). Raises ProcessError if dumpcap is missing, has no permission to
        capture, or does not know the interface.
        """
        log = file.with_suffix(".log")
        if not place.run(["sh", "-c", "command -v dumpcap"], check=False):
            command = ["tcpdump", "-n", "-i", interface, "-s", str(snaplen), "-B", str(_BUFFER_MIB << 10)]
            command += ["--time-stamp-precision=nano", "-w", "-", *([only] if only else [])]
            raw = file.with_suffix(_TCPDUMP)
            process = Process.start(
                place, command, stdout=raw, stderr=log, ready="listening on ", timeout=timeout, wrap=wrap
            )
            return cls(process, raw, log)
        command = ["dumpcap", "-q", "-i", interface, "-s", str(snaplen), "-B", str(_BUFFER_MIB), "-w", "-"]
        command += ["-f", only] if only else []
        # "File:" is printed after the interface is open and the ring is mapped; "Capturing on" before.
        process = Process.start(place, command, stdout=file, stderr=log, ready=r"^File: ", timeout=timeout, wrap=wrap)
        return cls(process, file, log)

    def stop(self, *, real_time: bool = True) -> Captured:
        """Stop the capture, compress it to <file>.zst and return how many packets it holds and lost.

        In real time, a busy host may keep dumpcap from its ring, so this waits until the file no longer grows.
        Raises ProcessError if dumpcap ended early or printed no count.
        """
        if self.process.alive():
            time.sleep(_HANDOVER_S)
            if real_time:
                self._await_written()
        self.process.stop()
        log = self.log.read_text(errors="replace")
        if self.raw.suffix == _TCPDUMP:
            return self._converted(log)
        packed = compress(self.raw)
        counts = _ENDED.search(log)
        if counts is None:
            raise ProcessError(f"dumpcap printed no packet count for {packed}: {log.strip()[-300:]}")
        self.log.unlink()
        return Captured(packed, int(counts[1]), int(counts[2]))

    def _await_written(self) -> None:
        """Wait until the file no longer grows: a capture that ends drops what it has not written."""
        deadline, size = time.monotonic() + _PATIENCE_S, -1
        while size != (size := self.raw.stat().st_size) and time.monotonic() < deadline:
            time.sleep(_HANDOVER_S)

    def _converted(self, log: str) -> Captured:
        """Convert tcpdump's capture to pcapng, which is kept even without a packet count."""
        dropped = _TCPDUMP_DROPPED.search(log)
        file = self.raw.with_suffix(".pcapng")
        try:
            packets = to_pcapng(self.raw, file, int(dropped[1]) if dropped else None)
        except PcapError as failed:
            raise ProcessError(f"{failed}: {log.strip()[-300:]}") from failed
        self.raw.unlink()
        packed = compress(file)
        if dropped is None:
            raise ProcessError(f"tcpdump printed no packet count for {packed}: {log.strip()[-300:]}")
        self.log.unlink()
        return Captured(packed, packets, int(dropped[1]))


def own_traffic(hosts: Collection[str], viewers: Collection[str] = ()) -> str:
    """Return a capture filter (pcap-filter(7)) for packets between `hosts` (addresses), VLAN-tagged or not.

    With `viewers`, addresses whose peers are unknown, such as a live site's, also everything that they send and receive
    except name lookups. Empty without hosts: all packets are Sojourn's.
    """
    if not hosts:
        return ""
    among = " or ".join(sorted(set(hosts)))
    own = f"(src host ({among}) and dst host ({among}))"
    if viewers:
        own += f" or (host ({' or '.join(sorted(set(viewers)))}) and not port 53 and not port 5353 and not port 853)"
    # Conditions after `vlan` match only tagged packets.
    return f"{own} or (vlan and ({own}))"


def compress(file: Path) -> Path:
    """Replace `file` by `file`.zst and return the new path. Uses a few MB of memory for any size."""
    packed = file.with_name(file.name + ".zst")
    with file.open("rb") as source, packed.open("wb") as sink:
        zstandard.ZstdCompressor(level=3, write_checksum=True).copy_stream(source, sink)
    file.unlink()
    return packed
