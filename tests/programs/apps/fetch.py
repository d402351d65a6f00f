# SPDX-License-Identifier: Apache-2.0
"""An origin on this machine, and its answers."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path
from socket import create_connection, create_server

import pytest

from sojourn.apps.standins.origin import HOST, Origin, Site
from sojourn.hardware.machine.place import Place


@contextmanager
def serving(site: Site, run: Path, cache: Path, players: Path | None = None) -> Iterator[Origin]:
    """Serve `site` on a free port of this machine; `run` takes its logs, and stands for the folder `players`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOJOURN_CACHE", str(cache))
        patch.setattr("sojourn.apps.standins.origin.ensure_player", lambda: players or run)
        with create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        origin = Origin.start(Place("here"), "127.0.0.1", site, run, port=port)
    try:
        yield origin
    finally:
        origin.stop()


def fetch(origin: Origin, path: str, **header: str) -> tuple[bytes, Message]:
    """Return body and header of a successful answer."""
    trusting = ssl.create_default_context(cafile=str(origin.certificate.authority))
    connection = HTTPConnection(HOST, origin.port)
    connection.sock = trusting.wrap_socket(create_connection(("127.0.0.1", origin.port), 5), server_hostname=HOST)
    with closing(connection):
        connection.request("GET", path, headers=header)
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        return body, answer.headers
