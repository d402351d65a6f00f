# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 (RFC 9113) over TLS 1.3 over TCP, by the package h2: both ends of a connection, and the client's times."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, ResponseReceived, StreamEnded
from h2.settings import SettingCodes

#: The largest window (RFC 9113, 6.9.1): TCP alone limits a download.
_WINDOW = 2**31 - 1
#: What is kept of an object, bytes.
_KEPT = 1 << 14


class Http2Error(RuntimeError):
    """The other end does not answer as expected, or a connection has ended; one line that says why."""


class Http2Connection(asyncio.Protocol, ABC):
    """One end of a connection.

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
            self.lost(Http2Error("the other end does not support HTTP/2"))
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


class Http2Client(Http2Connection):
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
                answer.set_exception(Http2Error(f"the server answers with status {status}"))
        elif isinstance(event, DataReceived):
            self.received += len(event.data)
            self.http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            _, content = self._waiting[event.stream_id]
            if len(content) < _KEPT:
                content += event.data
        elif isinstance(event, StreamEnded):
            answer, content = self._waiting.pop(event.stream_id)
            if not answer.done():
                answer.set_result(bytes(content))

    def _lost(self, why: Exception | None) -> None:
        failed = Http2Error(f"the connection has ended: {why or 'the server closed it'}")
        waiting: list[asyncio.Future[Any]] = [self.handshake, *(answer for answer, _ in self._waiting.values())]
        for future in waiting:
            if not future.done():
                future.set_exception(failed)
                future.exception()  # nobody may be waiting


class Target(NamedTuple):
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

    async def connect(self, row: dict[str, Any] | None = None) -> Http2Client:
        """Return a connection after its TLS handshake; `row` receives the times of both handshakes."""
        loop, row = asyncio.get_running_loop(), {} if row is None else row
        with self.connecting() as own:
            row["t"], begun = time.time(), time.monotonic()
            await loop.sock_connect(own, (self.address, self.port))
            connected = time.monotonic()
            row |= {"port": own.getsockname()[1], "tcp_ms": milliseconds(begun, connected), "tls_t": time.time()}
            _, client = await loop.create_connection(lambda: Http2Client(self.context, self.host), sock=own)
        try:
            await client.handshake
        except BaseException:
            client.transport.abort()
            raise
        row["tls_ms"] = milliseconds(connected, time.monotonic())
        return client


def milliseconds(begun: float, ended: float) -> float:
    """Return the time between two readings of time.monotonic, ms."""
    return round((ended - begun) * 1e3, 4)


def client_context(authority: Path) -> ssl.SSLContext:
    """Return a context for clients that trust an authority alone, by its certificate (PEM)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authority)
    return _of_http2(context)


def server_context(chain: Path, key: Path) -> ssl.SSLContext:
    """Return a context for a server with this certificate and key (PEM), which resumes no session."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0
    context.load_cert_chain(chain, key)
    return _of_http2(context)


def _of_http2(context: ssl.SSLContext) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    return context
