# SPDX-License-Identifier: Apache-2.0
"""The status page of a soak, for a browser on this machine only.

It listens on a loopback address only, and answers only requests whose Host header names that address: a page from
elsewhere cannot read it by a name that it makes resolve to 127.0.0.1 (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import ipaddress
import threading
from concurrent.futures import Future
from dataclasses import dataclass

from aiohttp import web
from aiohttp.typedefs import Handler

from sojourn.hardware.machine.errors import CodedError
from sojourn.harness.report.html import render
from sojourn.harness.soak.state import BatchDirectory
from sojourn.harness.soak.status import clock, lines, status
from sojourn.harness.store.reasons import joined

OFF = "off"
DEFAULT = "127.0.0.1:8470"
_START_S = 10
_REFRESH_S, _STILL = 10, "still"
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


class AddressError(CodedError):
    """A status page cannot be served at this address; one line that says what would be right."""


@dataclass(frozen=True)
class Address:
    """A loopback address and a port; port 0 is any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address(text: str) -> Address | None:
    """Return the address that `text` names, e.g. `127.0.0.1:8470` or `[::1]:0`; None for `off`.

    Raises AddressError for any that others could reach.
    """
    if text == OFF:
        return None
    host, _, port = text.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.removeprefix("[").removesuffix("]")
    if not port.isdecimal() or int(port) > 65535:
        raise AddressError(
            f"--status: {text!r} has no port; give {DEFAULT}, a port of 0 to 65535, or off", code="invalid-value"
        )
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise AddressError(
            f"--status: {host!r} is not an address; give {DEFAULT}, [::1]:8470 or off", code="invalid-value"
        ) from None
    if not loopback:
        raise AddressError(
            f"--status: {host} is reachable from other machines, and the page has no password; give {DEFAULT} or "
            "off, and use `ssh -L`",
            code="insecure",
        )
    return Address(host, int(port))


class StatusPage:
    """The page, served by a thread while the context lasts; `at` is its address."""

    def __init__(self, folder: BatchDirectory, at: Address) -> None:
        self._folder, self.at = folder, at
        self._loop = asyncio.new_event_loop()
        self._ready: Future[Address] = Future()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="status page", daemon=True)

    def __enter__(self) -> StatusPage:
        """Start serving. Raises AddressError if the port is in use, or the page is not there in time."""
        self._thread.start()
        try:
            self.at = self._ready.result(_START_S)
        except TimeoutError:  # an OSError, which would end a batch
            self._loop.call_soon_threadsafe(self._ended.set)
            raise AddressError(f"--status: {self.at}: not served within {_START_S} s", code="failed") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(_START_S)

    @property
    def url(self) -> str:
        """The URL for a browser."""
        return f"http://{self.at}/"

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self._main())
        except OSError as error:
            self._ready.set_exception(AddressError(f"--status: {self.at}: {error.strerror or error}", code="in-use"))
        finally:
            self._loop.close()

    async def _main(self) -> None:
        app = web.Application(middlewares=[self._only_here])
        app.router.add_get("/", self._page)
        app.router.add_get("/status.json", self._json)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        try:
            await web.TCPSite(runner, self.at.host, self.at.port).start()
            port = runner.addresses[0][1]
            self._ready.set_result(Address(self.at.host, port))
            await self._ended.wait()
        finally:
            await runner.cleanup()

    @web.middleware
    async def _only_here(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        port = request.transport.get_extra_info("sockname")[1] if request.transport else 0
        if request.headers.get("Host") not in {f"localhost:{port}", str(Address(self.at.host, port))}:
            raise web.HTTPMisdirectedRequest(text="This page is for a browser on this machine.\n", headers=_HEADERS)
        response: web.StreamResponse = await handler(request)
        response.headers.update(_HEADERS)
        return response

    async def _json(self, _: web.Request) -> web.Response:
        return web.json_response((await asyncio.to_thread(status, self._folder)).record())

    async def _page(self, request: web.Request) -> web.Response:
        still = _STILL in request.query
        text = await asyncio.to_thread(self._html, still)
        return web.Response(text=text, content_type="text/html", headers={} if still else {"Refresh": str(_REFRESH_S)})

    def _html(self, still: bool) -> str:
        state = status(self._folder)
        last = [
            (attempt.number, attempt.cell, attempt.words, joined(attempt.reasons) or attempt.headline, attempt.run)
            for attempt in state.last
        ]
        view = {"state": state, "lines": lines(state), "last": last, "now": clock(state.now), "still": still}
        return render("soak_status.html.j2", view)
