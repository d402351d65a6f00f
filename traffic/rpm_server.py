# SPDX-License-Identifier: Apache-2.0
"""A server of the Responsiveness Test: the four URLs of draft-ietf-ippm-responsiveness-09."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import ssl
import struct
import sys
from pathlib import Path

from h2.events import DataReceived, RequestReceived, StreamEnded

from sojourn.traffic.http2 import Http2Connection, server_context

CONFIGURATION, SMALL, LARGE, UPLOAD = "/.well-known/nq", "/small", "/large", "/upload"
"""The paths of a test server; the first one is the draft's, and has the URLs of the others."""
LARGE_BYTES = 8 * 10**9
"""The draft's minimum size of the large object."""
_NOTHING = bytes(1 << 14)
#: The draft's limit of unsent data in a sender, s at its rate, and its minimum, a segment.
_UNSENT_S, _LEAST_UNSENT = 0.005, 1448
#: In linux/tcp.h's tcp_info: the bytes not sent yet, and the delivery rate, bytes/s; the length up to there.
_NOT_SENT, _DELIVERY_RATE, _INFO_BYTES = 144, 160, 168


class _Server(Http2Connection):
    """The server's end of one connection; large responses share it frame by frame, small ones never wait for them."""

    def __init__(self, context: ssl.SSLContext, control: str) -> None:
        super().__init__(context, client=False)
        self._control = control
        self._left: dict[int, int] = {}
        self._unsent = 0
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
            if self._queued() >= self._unsent:
                self._await_room()
                return
            for stream in list(streams):
                room = self.http.local_flow_control_window(stream)
                size = min(self._left[stream], room, self.http.max_outbound_frame_size, self._unsent, len(_NOTHING))
                if size <= 0:
                    streams.remove(stream)
                    continue
                self._left[stream] -= size
                self.http.send_data(stream, _NOTHING[:size], end_stream=not self._left[stream])
                super().flush()

    def _queued(self) -> int:
        """Limit the unsent data to what the connection delivers within _UNSENT_S; return the bytes not sent yet.

        In one write, and later, the kernel takes more than its limit, TCP_NOTSENT_LOWAT.
        """
        info = self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        (queued,), (rate,) = struct.unpack_from("I", info, _NOT_SENT), struct.unpack_from("Q", info, _DELIVERY_RATE)
        if (unsent := max(_LEAST_UNSENT, round(rate * _UNSENT_S))) != self._unsent:
            self._unsent = unsent
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, unsent)
        return int(queued)

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


async def serve(address: str, port: int, chain: Path, key: Path, control: str) -> None:
    """Serve the draft's four URLs at `address`:`port` forever, with congestion control `control`."""
    context = server_context(chain, key)
    server = await asyncio.get_running_loop().create_server(
        lambda: _Server(context, control), address, port, backlog=128
    )
    print("listening", file=sys.stderr, flush=True)
    async with server:
        await server.serve_forever()
