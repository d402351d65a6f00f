# SPDX-License-Identifier: Apache-2.0
"""A call without a browser: a talker sends video frames by a schedule, a listener notes when each packet arrives.

A frame's packets leave at once, as in a call whose sender does not pace. The two ends must share a clock, or have
synchronised clocks: the delay is one-way.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

PAYLOAD = 1200
"""UDP payload of a full packet in libwebrtc, bytes."""
_HEADER = struct.Struct("!IIQ")  # packet number, frame number, time of sending (Unix ns)
_LAST = 0xFFFFFFFF  # as the packet number: the frame number is the number of packets sent
_TOS = {"not-ect": 0, "ect1": 1, "ect0": 2}
_SILENCE_S = 3.0
_FAREWELLS = 5


@dataclass(frozen=True)
class Schedule:
    """Frames of a call: mean bit rate of UDP payload (bit/s), frames/s, and key frames.

    A key frame comes every `key_every` frames and is `key_factor` times as large as the others.
    """

    bitrate_bps: float = 1_790_000
    fps: float = 30
    key_every: int = 300
    key_factor: float = 8

    def frame_bytes(self, number: int) -> int:
        """Size of a frame, bytes; the mean over `key_every` frames matches the bit rate."""
        mean = self.bitrate_bps / 8 / self.fps
        other = mean * self.key_every / (self.key_every - 1 + self.key_factor)
        return round(other * self.key_factor if number % self.key_every == 0 else other)

    def packets(self, number: int) -> Iterator[int]:
        """Yield the payload bytes of every packet of a frame; none is shorter than its header."""
        left = self.frame_bytes(number)
        while left > 0:
            yield max(_HEADER.size, min(PAYLOAD, left))
            left -= PAYLOAD


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def talk(to: tuple[str, int], schedule: Schedule, seconds: float, ecn: str = "not-ect") -> int:
    """Send the schedule to (address, port) for `seconds`, or until interrupted; return how many packets left.

    Raises OSError, KeyError.
    """
    sent = 0
    with socket.socket(_family(to[0]), socket.SOCK_DGRAM) as out:
        if out.family == socket.AF_INET6:
            out.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, _TOS[ecn])
        else:
            out.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, _TOS[ecn])
        begun = time.monotonic()
        with suppress(KeyboardInterrupt):
            for number in range(round(seconds * schedule.fps)):
                time.sleep(max(0.0, begun + number / schedule.fps - time.monotonic()))
                for size in schedule.packets(number):
                    out.sendto(_HEADER.pack(sent, number, time.time_ns()).ljust(size, b"\0"), to)
                    sent += 1
        for _ in range(_FAREWELLS):  # at least one arrives
            out.sendto(_HEADER.pack(_LAST, sent, time.time_ns()), to)
            time.sleep(0.1)
    return sent


def listen(at: socket.socket, first_s: float = 60.0) -> dict[str, Any]:
    """Receive one talk: {"sent": packets or None without a farewell, "packets": [[number, frame, sent, received] …]}.

    Times are Unix ns, in order of arrival. Ends at the talker's farewell, or after 3 s of silence. Raises TimeoutError
    if nothing arrives within `first_s` s.
    """
    packets: list[tuple[int, int, int, int]] = []
    at.settimeout(first_s)
    while True:
        try:
            data = at.recv(2048)
        except TimeoutError:
            if not packets:
                raise
            return {"sent": None, "packets": packets}
        arrived = time.time_ns()
        at.settimeout(_SILENCE_S)
        number, frame, left = _HEADER.unpack_from(data)
        if number == _LAST:
            # An interrupt may occur after a packet was sent and before it was counted.
            return {"sent": max([frame, *(number + 1 for number, *_ in packets)]), "packets": packets}
        packets.append((number, frame, left, arrived))


def summary(sent: int | None, packets: Sequence[Sequence[int]]) -> dict[str, float | None]:
    """Return the share lost (None if unknown) and the packets' one-way delay in ms: median, 99th percentile, maximum.

    Percentiles (nearest rank) are over all packets sent: None if they fall on a lost packet. The maximum is of the
    packets that arrived: None without any.
    """
    delays = sorted((arrived - left) / 1e6 for _, _, left, arrived in packets)
    count = max(sent or 0, len(delays))

    def rank(percent: int) -> float | None:
        at = -(-percent * count // 100)
        return delays[at - 1] if 0 < at <= len(delays) else None

    return {
        "loss": 1 - len({number for number, *_ in packets}) / sent if sent else None,
        "delay_p50_ms": rank(50),
        "delay_p99_ms": rank(99),
        "delay_max_ms": max(delays, default=None),
    }


def main(arguments: Sequence[str]) -> int:
    """`listen ADDRESS PORT` prints a talk as JSON with its summary; `talk ADDRESS PORT …` sends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("does", choices=("talk", "listen"))
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--bitrate", type=float, default=Schedule.bitrate_bps, help="bit/s of UDP payload")
    parser.add_argument("--fps", type=float, default=Schedule.fps)
    parser.add_argument("--key-every", type=int, default=Schedule.key_every, help="frames")
    parser.add_argument("--key-factor", type=float, default=Schedule.key_factor)
    parser.add_argument("--ecn", choices=_TOS, default="not-ect")
    chosen = parser.parse_args(arguments)
    to = (chosen.address, chosen.port)
    try:
        if chosen.does == "talk":
            schedule = Schedule(chosen.bitrate, chosen.fps, chosen.key_every, chosen.key_factor)
            print(json.dumps({"sent": talk(to, schedule, chosen.seconds, chosen.ecn)}))
            return 0
        with socket.socket(_family(chosen.address), socket.SOCK_DGRAM) as at:
            at.bind(to)
            print("listening", file=sys.stderr, flush=True)
            heard = listen(at)
        print(json.dumps({"summary": summary(heard["sent"], heard["packets"]), **heard}))
        return 0
    except OSError as error:  # TimeoutError is one
        print(f"{chosen.does} {chosen.address}:{chosen.port}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
