# SPDX-License-Identifier: Apache-2.0
"""An online game without a browser: a player sends inputs to a server, which sends a state of the game per tick.

Both are UDP at 60 packets per second, each with its number and time of sending. Sizes of payloads are those of a first
person shooter in NGMN, "Radio Access Performance Evaluation Methodology" 1.0 (2008), annex A, after Färber, "Network
Game Traffic Modelling" (NetGames 2002): largest extreme values with location 45 and scale 5.7 bytes up, 120 and 36
bytes down; with UDP and IPv4 headers, 76 and 169 bytes on average. That model has 17 packets per second down
and 25 up; 60 is a common rate of today's games.

The two ends must share a clock, or have synchronised clocks: delays are one-way. The server needs only Python 3, so
that it also runs on a remote host.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence

TICK_HZ = 60
"""Packets per second in each direction."""
UP, DOWN = "up", "down"
#: Location and scale of the payload's size, bytes.
_SIZES = {UP: (45, 5.7), DOWN: (120, 36)}
#: A larger packet would be fragmented.
_LARGEST = 1200
_HEADER = struct.Struct("!IQ")  # packet number, time of sending (Unix ns)
#: How long an end receives what is under way after it has stopped sending, s.
_LINGER_S = 2.0


def sizes(seed: str, way: str) -> Iterator[int]:
    """Yield the payload of every packet in a direction, bytes, endlessly: its extreme value, at least its header."""
    draw, (location, scale) = random.Random(f"{seed} {way}"), _SIZES[way]
    while True:
        size = round(location - scale * math.log(max(draw.expovariate(1), 1e-12)))
        yield max(_HEADER.size, min(_LARGEST, size))


def phase_s(seed: str, way: str) -> float:
    """Return when in a tick's interval an end sends, s: the clocks of player and server are independent."""
    return random.Random(f"phase {seed} {way}").uniform(0, 1 / TICK_HZ)


class GameEnd:
    """One end of the game; each packet that it sends and receives is a line of JSON on stdout.

    `{"sent": number, "t_ns": …, "bytes": payload}`, `{"received": number, "t_ns": …, "sent_ns": …}`; times in Unix ns.
    """

    def __init__(self, own: socket.socket, seed: str, way: str, dscp: int) -> None:
        """`way` is the direction in which it sends. Raises OSError for a DSCP that the host refuses."""
        self._own, self._seed, self._way = own, seed, way
        self._stopped = math.inf
        if own.family == socket.AF_INET6:
            own.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
        else:
            own.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)

    def stop(self, *_: object) -> None:
        """Send nothing further, and return from `play` once what is under way has had time to arrive."""
        self._stopped = min(self._stopped, time.monotonic())

    def play(self, peer: tuple[str, int] | None) -> None:
        """Exchange packets with `peer` until stopped; None: with the first from whom a packet comes. Raises OSError."""
        payloads, number = sizes(self._seed, self._way), 0
        due = time.monotonic() + phase_s(self._seed, self._way)
        while (now := time.monotonic()) < self._stopped + _LINGER_S:
            sending = peer is not None and self._stopped == math.inf
            if peer is not None and sending and now >= due:
                self._send(number, next(payloads), peer)
                number, due = number + 1, due + 1 / TICK_HZ
                continue
            ready, *_ = select.select([self._own], [], [], max(0.0, due - now) if sending else 0.1)
            if ready and (came := self._receive()) and peer is None:
                peer, due = came, time.monotonic() + phase_s(self._seed, self._way)

    def _send(self, number: int, size: int, peer: tuple[str, int]) -> None:
        sent = time.time_ns()
        self._own.sendto(_HEADER.pack(number, sent).ljust(size, b"\0"), peer)
        print(json.dumps({"sent": number, "t_ns": sent, "bytes": size}), flush=True)

    def _receive(self) -> tuple[str, int] | None:
        """Note a packet, and return from where it came; None for what is not the game's."""
        data, source = self._own.recvfrom(2048)
        arrived = time.time_ns()
        if len(data) < _HEADER.size:
            return None
        number, sent = _HEADER.unpack_from(data)
        print(json.dumps({"received": number, "t_ns": arrived, "sent_ns": sent}), flush=True)
        return source  # type: ignore[no-any-return]


def main(arguments: Sequence[str]) -> int:
    """`game.py serve ADDRESS PORT …` serves, `game.py play ADDRESS PORT …` plays, both until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("does", choices=("serve", "play"))
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--dscp", type=int, default=0, help="differentiated services codepoint of all packets")
    chosen = parser.parse_args(arguments)
    at, serves = (chosen.address, chosen.port), chosen.does == "serve"
    family = socket.AF_INET6 if ":" in chosen.address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as own:
            end = GameEnd(own, chosen.seed, DOWN if serves else UP, chosen.dscp)
            signal.signal(signal.SIGINT, end.stop)
            signal.signal(signal.SIGTERM, end.stop)
            if serves:
                own.bind(at)
            print("listening" if serves else "playing", file=sys.stderr, flush=True)
            end.play(None if serves else at)
    except OSError as error:
        print(f"{chosen.does} {chosen.address}:{chosen.port}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
