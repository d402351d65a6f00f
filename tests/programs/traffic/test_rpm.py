# SPDX-License-Identifier: Apache-2.0
"""The Responsiveness Test's server and clients over two network namespaces, and over loopback by hand."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import pytest
from pydantic import TypeAdapter

from sojourn.apps.standins.origin import HOST, ensure_certificate
from sojourn.hardware.machine.files import LOGS
from sojourn.hardware.machine.place import LOCAL
from sojourn.hardware.machine.process import Process, ProcessError
from sojourn.harness.lab.contract import Addresses, Lab, MadeLab, Tap
from sojourn.harness.lab.responsiveness import WithForeignProbes
from sojourn.scoring.responsiveness import foreign_fields, frame
from sojourn.scoring.schema import records
from sojourn.scoring.schema.records import ResponsivenessRecord
from sojourn.traffic import ports
from sojourn.traffic.http2 import Http2Error, Target, client_context
from sojourn.traffic.rpm_flow import ResponsivenessTest
from sojourn.traffic.rpm_programs import PROBES_FILE, Identity, failure, start_client, start_server
from sojourn.traffic.rpm_server import CONFIGURATION, LARGE, SMALL, UPLOAD
from tests.programs.traffic.conftest import Pair


@pytest.fixture(scope="module")
def identity() -> Identity:
    own = ensure_certificate()
    return Identity(own.chain, own.key, own.authority, HOST)


def until(enough: Callable[[], bool], *running: Process) -> None:
    deadline = time.monotonic() + 60
    while not enough():
        assert all(it.alive() for it in running) and time.monotonic() < deadline
        time.sleep(0.05)


class _Factory(MadeLab):
    """A lab of the pair: the client is the receiver."""

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        server, client, at = pair.sender, pair.receiver, (pair.receiver_address, pair.sender_address)
        addresses, tap = Addresses(at[0], at[0], at[1], at[1]), Tap(client, "e1")
        self.lab = Lab("pair", client, server, server, client, None, tap, tap, addresses)

    def __enter__(self) -> Lab:
        return self.lab


def test_foreign_probes_of_a_lab_time_each_of_their_parts(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / LOGS).mkdir()
    file = tmp_path / PROBES_FILE
    with WithForeignProbes(_Factory(pair), tmp_path, 0.1) as lab:
        deadline = time.monotonic() + 60
        while file.read_text().count("\n") < 20:
            assert [ended() for ended in lab.watched.values()] == [None, None] and time.monotonic() < deadline
            time.sleep(0.05)
    lines = records.read_lines(file, records.RPM)
    done = [it for it in lines if it["http_ms"] is not None]
    assert all(it["t"] < it["tls_t"] < it["http_t"] for it in done)
    # No part begins before the one in front of it has ended, and the next begins at once. The median probe judges:
    # a busy host stops a program between its readings of two clocks.
    for begin, part, following in (("t", "tcp_ms", "tls_t"), ("tls_t", "tls_ms", "http_t")):
        assert -1e-4 <= median(it[following] - it[begin] - it[part] / 1e3 for it in done) < 5e-3
    fields = foreign_fields(frame(lines))
    parts = [fields[f"foreign_{part}_ms"] or 0 for part in ("tcp", "tls", "http")]
    # Here a handshake is what both ends compute, and TCP's is done by their kernel.
    assert 0 < parts[0] < parts[1] and parts[2] > 0
    assert fields["foreign_rpm"] == pytest.approx(60_000 / (sum(parts) / 3)) and len(done) >= 15


def test_the_load_grows_and_both_kinds_of_probes_are_apart(pair: Pair, identity: Identity, tmp_path: Path) -> None:
    ends = pair.sender, pair.receiver, pair.sender_address, pair.receiver_address
    test = ResponsivenessTest(*ends, tmp_path, number=1, identity=identity)
    with ExitStack() as stack:
        stack.callback(test._end)
        test.start()
        begun = time.monotonic()
        while time.monotonic() < begun + 12.5:
            assert test.failure is None
            time.sleep(0.1)
        record = test.record("rpm", test.stop())
    assert not test.alive() and record["start"] < record["end"]
    result = TypeAdapter(ResponsivenessRecord).validate_python(record["responsiveness"])
    assert [it["connections"] for it in result["intervals"]] == [1, 2]  # type: ignore[typeddict-item]
    assert result["intervals"][1]["goodput_bps"] > 10e6  # type: ignore[typeddict-item]
    foreign, loaded = result["Foreign_Responsiveness"] or 0, result["Loaded_Responsiveness"] or 0
    assert result["Responsiveness"] == pytest.approx((foreign + loaded) / 2, abs=0.01)
    assert foreign > 0 and loaded > 0
    assert result["confidence"] == {"goodput": "Low", "responsiveness": "Low"}
    kinds = [it["probe"] for it in record["probes"] if it["http_ms"] is not None]
    assert kinds.count("foreign") > 5 and kinds.count("self") > 5
    assert (record["contender"], record["server_port"]) == ("rpm", ports.RPM_LOAD)


@pytest.fixture
def port() -> int:
    """A port of loopback that nobody has."""
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


@pytest.fixture
def target(identity: Identity, port: int, tmp_path: Path) -> Iterator[Target]:
    """A server on loopback."""
    server = start_server(LOCAL, "127.0.0.1", port, identity, tmp_path / "server")
    yield Target("127.0.0.1", port, HOST, client_context(identity.authority))
    server.stop(signal.SIGTERM)


def test_the_server_has_the_drafts_four_urls(target: Target) -> None:
    async def visit() -> None:
        client = await target.connect()
        urls = json.loads(await client.get(CONFIGURATION))
        names = {"large_download_url": LARGE, "small_download_url": SMALL, "upload_url": UPLOAD}
        assert urls == {"version": 1, "urls": {name: f"https://{HOST}{path}" for name, path in names.items()}}
        assert len(await client.get(SMALL)) == 1
        large = client.get(LARGE)
        while client.received < 1 << 20:
            await asyncio.sleep(0.01)
        # On the same connection, next to the large one, which goes on.
        assert len(await client.get(SMALL)) == 1 and not large.done()
        with pytest.raises(Http2Error, match="status 404"):
            await client.get("/nothing")
        client.transport.close()
        assert client._tls.version() == "TLSv1.3"

    asyncio.run(asyncio.wait_for(visit(), 30))


def test_an_upload_is_taken_and_answered(target: Target) -> None:
    async def post() -> str:
        client = await target.connect()
        stream = client.http.get_next_available_stream_id()
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        client._waiting[stream] = answer, bytearray()
        client.http.send_headers(
            stream, [(":method", "POST"), (":scheme", "https"), (":authority", HOST), (":path", UPLOAD)]
        )
        client.http.send_data(stream, bytes(10_000), end_stream=True)
        client.flush()
        await answer
        return "taken"

    assert asyncio.run(asyncio.wait_for(post(), 30)) == "taken"


def test_a_client_trusts_the_labs_authority_only(target: Target) -> None:
    strange = target._replace(context=ssl.create_default_context())
    strange.context.set_alpn_protocols(["h2"])
    with pytest.raises(Http2Error, match="certificate"):
        asyncio.run(asyncio.wait_for(strange.connect(), 30))


def test_without_a_server_a_client_says_so(identity: Identity, port: int, tmp_path: Path) -> None:
    with pytest.raises(ProcessError, match=rf"probe 127\.0\.0\.1:{port}: .*(refused|Connect call failed)"):
        start_client("probe", LOCAL, "127.0.0.1", port, identity, tmp_path / "out")


def test_a_server_that_goes_ends_the_load_and_leaves_probes_unanswered(
    pair: Pair, identity: Identity, tmp_path: Path
) -> None:
    at, file = (pair.sender_address, ports.RPM), tmp_path / "rpm.jsonl"
    with ExitStack() as stack:
        server = start_server(pair.sender, *at, identity, tmp_path / "server")
        stack.callback(server.stop, signal.SIGKILL)
        probe = start_client("probe", pair.receiver, *at, identity, file, "--interval=0.1")
        stack.callback(probe.stop)
        load = start_client("load", pair.receiver, *at, identity, tmp_path / "load")
        stack.callback(load.stop)
        until(lambda: file.read_text().count("\n") >= 3, server, probe, load)
        server.stop(signal.SIGKILL)
        answered = file.read_text().count("\n")
        until(lambda: not load.alive())
        assert "connection has ended" in (failure(load) or "")
        until(lambda: file.read_text().count("\n") > answered + 3, probe)
    assert records.read_lines(file, records.RPM)[-1]["http_ms"] is None
