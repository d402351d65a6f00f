# SPDX-License-Identifier: Apache-2.0
"""The Responsiveness Test's server, its probes, and its load: HTTP/2 over TLS 1.3 over TCP.

Source: draft-ietf-ippm-responsiveness-09. `serve` answers; `probe` sends foreign probes, each over a new connection;
`load` is the whole test, downwards: large downloads over more and more connections, foreign probes, and self probes on
the load-generating connections. `probe` and `load` print a line of JSON for every probe.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import random
import socket
import ssl
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, ResponseReceived, StreamEnded
from h2.settings import SettingCodes

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

CONFIGURATION, SMALL, LARGE, UPLOAD = "/.well-known/nq", "/small", "/large", "/upload"
"""The paths of a test server; the first one is the draft's, and has the URLs of the others."""
LARGE_BYTES = 8 * 10**9
"""The draft's minimum size of the large object."""
_NOTHING = bytes(1 << 14)
#: The largest window of HTTP/2 (RFC 9113, 6.9.1): TCP alone limits a download.
_WINDOW = 2**31 - 1
_SIOCOUTQNSD = 0x894B  # linux/sockios.h: a socket's bytes that are not sent yet
#: The draft's limit of unsent data in a sender, s at its rate; its minimum, a segment; over what time the rate is.
_UNSENT_S, _LEAST_UNSENT, _RATE_S = 0.005, 1448, 0.1
_PROBE_S = 15.0  # after this time, s, a foreign probe counts as unanswered
#: The time between two probes while nothing is known of the capacity, s.
_SLOW_PROBES_S = 0.5


class RpmError(RuntimeError):
    """The server answers otherwise than the draft says, or a load-generating connection has ended."""


class _Http2(asyncio.Protocol, ABC):
    """One end of an HTTP/2 connection over TLS.

    TLS is done here rather than by asyncio, so that the handshake is timed alone, and nothing but the kernel queues.
    """

    def __init__(self, context: ssl.SSLContext, *, client: bool, host: str | None = None) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=not client, server_hostname=host)
        self.http = H2Connection(H2Configuration(client_side=client))
        self.secured = self.full = False
        self.lost: Callable[[Exception | None], None] = lambda _why: None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        # A small request must not wait for the acknowledgement of what was sent before it.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Any data that the kernel does not take at once pauses the writer.
        transport.set_write_buffer_limits(high=0)
        self._shake_hands()

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._to_wire()
            return
        except ssl.SSLError as failed:
            self.transport.abort()
            self.lost(failed)
            return
        self.secured = True
        if self._tls.selected_alpn_protocol() != "h2":
            self.transport.abort()
            self.lost(RpmError("the other end does not support HTTP/2"))
            return
        self.ready()
        self.flush()

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        if not self.secured:
            self._shake_hands()
        if self.secured:
            while plain := self._plain():
                for event in self.http.receive_data(plain):
                    self.happened(event)
            self.flush()

    def _plain(self) -> bytes:
        try:
            return self._tls.read(1 << 16)
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as ended:  # also the other end's farewell
            self.transport.close()
            self.lost(ended)
            return b""

    def flush(self) -> None:
        """Send what HTTP/2 has to send."""
        if data := self.http.data_to_send():
            self._tls.write(data)
        self._to_wire()

    def _to_wire(self) -> None:
        if (data := self._outgoing.read()) and not self.transport.is_closing():
            self.transport.write(data)

    def pause_writing(self) -> None:
        self.full = True

    def resume_writing(self) -> None:
        self.full = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost(exc)

    def ready(self) -> None:
        """The TLS handshake is complete."""
        self.http.initiate_connection()

    @abstractmethod
    def happened(self, event: object) -> None:
        """Take an event of HTTP/2."""


class _Server(_Http2):
    """The server's end of one connection; large responses share it frame by frame, small ones never wait for them."""

    def __init__(self, context: ssl.SSLContext, control: str) -> None:
        super().__init__(context, client=False)
        self._control = control
        self._left: dict[int, int] = {}
        self._sent, self._since, self._unsent = 0, 0.0, len(_NOTHING)
        self._room: socket.socket | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport.get_extra_info("socket")
        # The route's setting overrides the listener's.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, self._control.encode())
        super().connection_made(transport)

    def happened(self, event: object) -> None:
        if isinstance(event, RequestReceived):
            self._answer(event)
        elif isinstance(event, DataReceived):
            self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, StreamEnded) and self._left.get(event.stream_id) == 0:
            self._left.pop(event.stream_id)
            self.http.send_headers(event.stream_id, [(":status", "200")], end_stream=True)

    def _answer(self, event: RequestReceived) -> None:
        headers = {name.decode(): value.decode() for name, value in event.headers}
        stream, path, ok = event.stream_id, headers[":path"], (":status", "200")
        octets = ("content-type", "application/octet-stream")
        if path == SMALL:
            self.http.send_headers(stream, [ok, octets, ("content-length", "1")])
            self.http.send_data(stream, b"x", end_stream=True)
        elif path == LARGE:
            self.http.send_headers(stream, [ok, octets, ("content-length", str(LARGE_BYTES))])
            self._left[stream] = LARGE_BYTES
        elif path == UPLOAD and headers[":method"] == "POST":
            self._left[stream] = 0  # answered when all has come
        elif path == CONFIGURATION:
            base = f"https://{headers[':authority']}"
            urls = {"large_download_url": LARGE, "small_download_url": SMALL, "upload_url": UPLOAD}
            text = json.dumps({"version": 1, "urls": {name: base + where for name, where in urls.items()}})
            self.http.send_headers(stream, [ok, ("content-type", "application/json")])
            self.http.send_data(stream, text.encode(), end_stream=True)
        else:
            self.http.send_headers(stream, [(":status", "404")], end_stream=True)

    def flush(self) -> None:
        super().flush()
        self._fill()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._fill()

    def _fill(self) -> None:
        """Send as much of the large objects as the kernel takes."""
        streams = [stream for stream, left in self._left.items() if left]
        while streams and not (self.full or self._room or self.transport.is_closing()):
            self._limit_unsent()
            if self._queued() >= self._unsent:
                self._await_room()
                return
            for stream in list(streams):
                room = self.http.local_flow_control_window(stream)
                size = min(self._left[stream], room, self.http.max_outbound_frame_size, self._unsent)
                if size <= 0:
                    streams.remove(stream)
                    continue
                self._left[stream] -= size
                self.http.send_data(stream, _NOTHING[:size], end_stream=not self._left[stream])
                self._sent += size
                super().flush()

    def _queued(self) -> int:
        """The bytes that the kernel has not sent yet; it takes more than TCP_NOTSENT_LOWAT in one write, and later."""
        return int.from_bytes(fcntl.ioctl(self._socket.fileno(), _SIOCOUTQNSD, bytes(4)), sys.byteorder)

    def _await_room(self) -> None:
        """Go on when less is unsent; a second descriptor, since the transport waits for its own data with the first."""
        self._room = socket.socket(fileno=os.dup(self._socket.fileno()))
        asyncio.get_running_loop().add_writer(self._room, self._has_room)

    def _has_room(self) -> None:
        self._stop_waiting()
        self._fill()

    def _stop_waiting(self) -> None:
        if self._room:
            asyncio.get_running_loop().remove_writer(self._room)
            self._room.close()
            self._room = None

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _limit_unsent(self) -> None:
        """Limit the data that the kernel queues unsent to what the connection sends within _UNSENT_S."""
        now = time.monotonic()
        if (took := now - self._since) >= _RATE_S:
            if self._since:
                self._unsent = max(_LEAST_UNSENT, min(len(_NOTHING), round(self._sent / took * _UNSENT_S)))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, self._unsent)
            self._sent, self._since = 0, now


async def serve(address: str, port: int, chain: Path, key: Path, control: str) -> None:
    """Serve the draft's four URLs at `address`:`port` forever, with congestion control `control`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # nobody resumes a session: a probe is a new client
    context.set_alpn_protocols(["h2"])
    context.load_cert_chain(chain, key)
    server = await asyncio.get_running_loop().create_server(
        lambda: _Server(context, control), address, port, backlog=128
    )
    print("listening", file=sys.stderr, flush=True)
    async with server:
        await server.serve_forever()


class _Client(_Http2):
    """The client's end of one connection."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        super().__init__(context, client=True, host=host)
        self._host = host
        self._waiting: dict[int, tuple[asyncio.Future[bytes], bytearray]] = {}
        self.handshake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.lost = self._lost
        self.received = 0
        """Bytes of all objects."""

    def ready(self) -> None:
        super().ready()
        self.http.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW})
        self.http.increment_flow_control_window(_WINDOW - 65_535)
        if not self.handshake.done():
            self.handshake.set_result(None)

    def get(self, path: str) -> asyncio.Future[bytes]:
        """Request an object; the result is its content, of a large one never."""
        stream = self.http.get_next_available_stream_id()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[stream] = answer, bytearray()
        self.http.send_headers(
            stream,
            [
                (":method", "GET"), (":scheme", "https"), (":authority", self._host), (":path", path),
                ("accept-encoding", "identity"),
            ],
            end_stream=True,
        )  # fmt: skip
        self.flush()
        return answer

    def happened(self, event: object) -> None:
        if isinstance(event, ResponseReceived):
            status = dict(event.headers)[b":status"].decode()
            answer, _ = self._waiting[event.stream_id]
            if status != "200" and not answer.done():
                answer.set_exception(RpmError(f"the server answers with status {status}"))
        elif isinstance(event, DataReceived):
            self.received += len(event.data)
            self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            _, content = self._waiting[event.stream_id]
            if len(content) < len(_NOTHING):
                content += event.data
        elif isinstance(event, StreamEnded):
            answer, content = self._waiting.pop(event.stream_id)
            if not answer.done():
                answer.set_result(bytes(content))

    def _lost(self, why: Exception | None) -> None:
        failed = RpmError(f"the connection has ended: {why or 'the server closed it'}")
        waiting: list[asyncio.Future[Any]] = [self.handshake, *(answer for answer, _ in self._waiting.values())]
        for future in waiting:
            if not future.done():
                future.set_exception(failed)
                future.exception()  # nobody may be waiting


class _Target(NamedTuple):
    """A test server, and the context that verifies it."""

    address: str
    port: int
    host: str
    context: ssl.SSLContext

    @contextmanager
    def connecting(self) -> Iterator[socket.socket]:
        """Yield a socket of the address's IP version; close it if the block fails."""
        own = socket.socket(socket.AF_INET6 if ":" in self.address else socket.AF_INET)
        own.setblocking(False)
        try:
            yield own
        except BaseException:
            own.close()
            raise

    async def connect(self, row: dict[str, Any] | None = None) -> _Client:
        """Return a connection after its TLS handshake; `row` receives the times of both handshakes."""
        loop, row = asyncio.get_running_loop(), {} if row is None else row
        with self.connecting() as own:
            row["t"], begun = time.time(), time.monotonic()
            await loop.sock_connect(own, (self.address, self.port))
            connected = time.monotonic()
            row |= {"port": own.getsockname()[1], "tcp_ms": _ms(begun, connected), "tls_t": time.time()}
            _, client = await loop.create_connection(lambda: _Client(self.context, self.host), sock=own)
        try:
            await client.handshake
        except BaseException:
            client.transport.abort()
            raise
        row["tls_ms"] = _ms(connected, time.monotonic())
        return client


def _ms(begun: float, ended: float) -> float:
    return round((ended - begun) * 1e3, 4)


async def _get_small(client: _Client, row: dict[str, Any]) -> None:
    row["http_t"], begun = time.time(), time.monotonic()
    if (content := await client.get(SMALL)) and len(content) != 1:
        raise RpmError(f"the small object has {len(content)} bytes, not 1")
    row["http_ms"] = _ms(begun, time.monotonic())


async def _foreign(target: _Target, rows: list[dict[str, Any]]) -> None:
    """Send one foreign probe; its row is complete when it has ended, however it does."""
    row: dict[str, Any] = {"probe": "foreign", "t": time.time()}
    row |= dict.fromkeys(("port", "tcp_ms", "tls_t", "tls_ms", "http_t", "http_ms"))
    try:
        with suppress(OSError, RpmError, TimeoutError):
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


async def probe(target: _Target, interval_s: float) -> None:
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

    def __init__(self, target: _Target, seed: str) -> None:
        self._target, self._draw = target, random.Random(seed)
        self._connections: list[_Client] = []
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
            raise RpmError(f"unknown configuration: {urls}")
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
    raise RpmError("a download of the load has ended")


async def load(target: _Target, seed: str) -> None:
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
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.set_alpn_protocols(["h2"])
            context.load_verify_locations(given.authority)
            target = _Target(given.address, given.port, given.host, context)
            asyncio.run(probe(target, given.interval) if given.does == "probe" else load(target, given.seed))
    except KeyboardInterrupt:
        return 0
    except (OSError, RpmError) as error:
        print(f"{given.does} {given.address}:{given.port}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
