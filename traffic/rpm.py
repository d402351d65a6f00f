# SPDX-License-Identifier: Apache-2.0
"""The Responsiveness Test: its probes, its load and its result.

Source: draft-ietf-ippm-responsiveness-09. `serve` answers; `probe` sends foreign probes, each over a new connection;
`load` is the whole test, downwards: large downloads over more and more connections, foreign probes, and self probes on
the load-generating connections. `probe` and `load` print a line of JSON for every probe.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sojourn.traffic.http2 import Http2Client, Http2Error, Target, client_context, milliseconds
from sojourn.traffic.responsiveness import (
    ADDED_CONNECTIONS,
    DRAFT,
    FIRST_CONNECTIONS,
    FOREIGN_BYTES,
    INTERVAL_S,
    MOST_CONNECTIONS,
    MOVING_AVERAGE,
    SELF_BYTES,
    ForeignProbe,
    Stages,
    foreign_responsiveness,
    foreign_times,
    loaded_responsiveness,
    probe_interval_s,
    responsiveness,
    trimmed_mean,
)
from sojourn.traffic.rpm_server import CONFIGURATION, LARGE, SMALL, serve

_PROBE_S = 15.0  # after this time, s, a foreign probe counts as unanswered
#: The time between two probes while nothing is known of the capacity, s.
_SLOW_PROBES_S = 0.5


async def _get_small(client: Http2Client, row: dict[str, Any]) -> None:
    row["http_t"], begun = time.time(), time.monotonic()
    if (content := await client.get(SMALL)) and len(content) != 1:
        raise Http2Error(f"the small object has {len(content)} bytes, not 1")
    row["http_ms"] = milliseconds(begun, time.monotonic())


async def _foreign(target: Target, rows: list[dict[str, Any]]) -> None:
    """Send one foreign probe; its row is complete when it has ended, however it does."""
    row: dict[str, Any] = {"probe": "foreign", "t": time.time()}
    row |= dict.fromkeys(("port", "tcp_ms", "tls_t", "tls_ms", "http_t", "http_ms"))
    try:
        with suppress(OSError, Http2Error, TimeoutError):
            async with asyncio.timeout(_PROBE_S):
                client = await target.connect(row)
                try:
                    await _get_small(client, row)
                finally:
                    client.transport.close()
    finally:
        _note(rows, row)


def _note(rows: list[dict[str, Any]], row: dict[str, Any]) -> None:
    rows.append(row)
    print(json.dumps(row), flush=True)


class _Tasks:
    """Concurrent probes and downloads; what one raises ends the wait of `until`."""

    def __init__(self) -> None:
        self._running = set[asyncio.Task[None]]()
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def start(self, probe: Coroutine[Any, Any, None]) -> None:
        """Start one."""
        self._running.add(task := asyncio.create_task(probe))
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (failed := task.exception()) and not self._failed.done():
            self._failed.set_exception(failed)

    async def until(self, due: float) -> None:
        """Wait until `due` (s, by time.monotonic), or raise what the first one raised."""
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._failed), max(0.0, due - time.monotonic()))

    async def end(self) -> None:
        """Cancel all."""
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)


async def probe(target: Target, interval_s: float) -> None:
    """Send foreign probes every `interval_s` s, however many are active, and print each, until cancelled."""
    tasks, begun, number = _Tasks(), time.monotonic(), 0
    first = await target.connect()  # the server answers, or this raises
    first.transport.close()
    print("connected", file=sys.stderr, flush=True)
    try:
        while True:
            await tasks.until(begun + number * interval_s)
            number += 1
            tasks.start(_foreign(target, []))
    finally:
        await tasks.end()


class _Load:
    """The test: load-generating connections, both kinds of probes, and the results of every interval."""

    def __init__(self, target: Target, seed: str) -> None:
        self._target, self._draw = target, random.Random(seed)
        self._connections: list[Http2Client] = []
        self._rows: list[dict[str, Any]] = []
        self._tasks, self._stages = _Tasks(), Stages()
        self._intervals: list[dict[str, Any]] = []
        self._result: dict[str, Any] | None = None

    async def run(self) -> None:
        """Load the path until cancelled; print the test's result at the end."""
        configuration = await self._target.connect()
        urls = json.loads(await configuration.get(CONFIGURATION))
        configuration.transport.close()
        if urls.get("version") != 1 or not urls["urls"]["large_download_url"].endswith(LARGE):
            raise Http2Error(f"unknown configuration: {urls}")
        try:
            await self._grow(FIRST_CONNECTIONS)
            self._tasks.start(self._probes())
            begun, before = time.monotonic(), 0
            print("loading", file=sys.stderr, flush=True)
            while True:
                await self._tasks.until(begun + (len(self._intervals) + 1) * INTERVAL_S)
                total = self._received()
                self._interval(8 * (total - before) / INTERVAL_S)
                before = total
                if not self._stages.ended:
                    await self._grow(ADDED_CONNECTIONS)
        finally:
            await self._tasks.end()
            print(json.dumps({"result": self._result or self._now()}), flush=True)

    def _received(self) -> int:
        return sum(connection.received for connection in self._connections)

    async def _grow(self, count: int) -> None:
        for _ in range(min(count, MOST_CONNECTIONS - len(self._connections))):
            connection = await self._target.connect()
            self._connections.append(connection)
            # A download that ends, or its connection, ends the test.
            self._tasks.start(_never_ends(connection.get(LARGE)))

    def _interval(self, goodput_bps: float) -> None:
        ended = self._stages.ended
        current = self._now()
        self._stages.interval(goodput_bps, current["Responsiveness"])
        self._intervals.append({
            "t": time.time(), "connections": len(self._connections), "goodput_bps": round(goodput_bps),
            "Responsiveness": current["Responsiveness"],
        })  # fmt: skip
        if self._stages.ended and not ended:
            self._result = self._now()

    def _now(self) -> dict[str, Any]:
        """Return the result of the last intervals, as the draft names it."""
        since = time.time() - MOVING_AVERAGE * INTERVAL_S
        done = [row for row in self._rows if row["http_ms"] is not None and row["t"] >= since]
        foreign = [
            ForeignProbe(row["tcp_ms"], row["tls_ms"], row["http_ms"]) for row in done if row["probe"] == "foreign"
        ]
        own = [row["http_ms"] for row in done if row["probe"] == "self"]
        tcp, tls, http = foreign_times(foreign)
        separate, loaded = foreign_responsiveness(foreign), loaded_responsiveness(own)
        known = {
            "Responsiveness": responsiveness(separate, loaded), "Foreign_Responsiveness": separate,
            "Loaded_Responsiveness": loaded, "TM(tcp_f)": tcp, "TM(tls_f)": tls, "TM(http_f)": http,
            "TM(http_l)": trimmed_mean(own),
        }  # fmt: skip
        return {
            "draft": DRAFT, "t": time.time(),
            **{name: None if value is None else round(value, 3) for name, value in known.items()},
            "goodput_bps": round(self._stages.averages_bps[-1]) if self._stages.averages_bps else None,
            "confidence": self._stages.confidence, "connections": len(self._connections),
            "intervals": list(self._intervals),
        }  # fmt: skip

    async def _probes(self) -> None:
        """Send a foreign and a self probe in turn, at the rate that the last second's goodput allows."""
        then, before = time.monotonic(), self._received()
        pause_s = _SLOW_PROBES_S
        while True:
            self._tasks.start(_foreign(self._target, self._rows))
            await asyncio.sleep(pause_s / 2)
            self._tasks.start(self._self())
            await asyncio.sleep(pause_s / 2)
            if (took := time.monotonic() - then) >= 1:
                bps = 8 * (self._received() - before) / took
                then, before = time.monotonic(), self._received()
                pause_s = min(_SLOW_PROBES_S * 4, probe_interval_s(max(bps, 1.0), FOREIGN_BYTES + SELF_BYTES))

    async def _self(self) -> None:
        connection = self._draw.choice(self._connections)
        row: dict[str, Any] = {"probe": "self", "t": time.time(), "http_t": None, "http_ms": None}
        row["port"] = connection.transport.get_extra_info("sockname")[1]
        try:
            await _get_small(connection, row)
        finally:
            _note(self._rows, row)


async def _never_ends(download: asyncio.Future[bytes]) -> None:
    await download
    raise Http2Error("a download of the load has ended")


async def load(target: Target, seed: str) -> None:
    """Run the test until cancelled, and print its probes and its result; `seed` selects connections of self probes."""
    await _Load(target, seed).run()


def main(arguments: Sequence[str]) -> int:
    """`rpm.py serve ADDRESS PORT` answers, `probe` and `load` measure, until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("does", choices=("serve", "probe", "load"))
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("--chain", type=Path, help="the server's certificate")
    parser.add_argument("--key", type=Path)
    parser.add_argument("--control", default="cubic", help="congestion control of the server")
    parser.add_argument("--authority", type=Path, help="whom a client trusts")
    parser.add_argument("--host", default="tv.test", help="the name in the certificate")
    parser.add_argument("--interval", type=float, default=0.5, help="time between two foreign probes, s")
    parser.add_argument("--seed", default="1", help="selects the connections of self probes")
    given = parser.parse_args(arguments)
    try:
        if given.does == "serve":
            asyncio.run(serve(given.address, given.port, given.chain, given.key, given.control))
        else:
            target = Target(given.address, given.port, given.host, client_context(given.authority))
            asyncio.run(probe(target, given.interval) if given.does == "probe" else load(target, given.seed))
    except KeyboardInterrupt:
        return 0
    except (OSError, Http2Error) as error:
        print(f"{given.does} {given.address}:{given.port}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
