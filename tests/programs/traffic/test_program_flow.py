# SPDX-License-Identifier: Apache-2.0
"""Flows of real programs in two namespaces: what works, and every way in which a program can fail."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from sojourn.hardware.machine.place import Place
from sojourn.traffic import program_flow
from sojourn.traffic.contender import ECN_FILES
from sojourn.traffic.iperf3 import BulkError
from sojourn.traffic.program_flow import KEPT_BYTES, ProgramFlow
from sojourn.traffic.user_program import read_user_program

if TYPE_CHECKING:
    from tests.programs.traffic.conftest import Pair

EXAMPLE = Path(__file__).parents[3] / "docs/examples/program"
SEND = "./mine send {address} {port} ecn"
pytestmark = pytest.mark.skipif(shutil.which("dumpcap") is None, reason="dumpcap is not installed")
Make = Callable[..., ProgramFlow]


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example of the documentation, compiled."""
    made = tmp_path_factory.mktemp("mine") / "mine"
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", made, EXAMPLE / "mine.c"], check=True)
    return made


@pytest.fixture
def make(pair: Pair, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return what makes a flow of a definition's lines, down the pair."""
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path / "cache"))
    shutil.copy(mine, tmp_path / "mine")

    def made(*lines: str, port: int = 5301, number: int = 7) -> ProgramFlow:
        (tmp_path / "it.toml").write_text("\n".join(lines))
        program = read_user_program(str(tmp_path / "it.toml"))
        addresses = pair.sender_address, pair.receiver_address
        return ProgramFlow(program, pair.sender, pair.receiver, addresses, tmp_path, port=port, number=number)

    return made


def definition(client: str = SEND, server: str = "./mine receive {port}", sender: str = "client") -> list[str]:
    return [f'server = "{server}"', f'client = "{client}"', f'sender = "{sender}"', 'files = ["mine"]']


def received_bytes(place: Place) -> int:
    lines = place.run(["cat", "/proc/net/dev"]).splitlines()
    return sum(int(line.split()[1]) for line in lines if line.strip().startswith("e"))


def left_behind(folder: Path) -> list[str]:
    """The processes that work in a folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(folder) in process.cwd():
                found.append(" ".join(process.cmdline()))
        except (psutil.Error, OSError):
            continue
    return found


def test_the_example_sends_until_it_is_stopped(pair: Pair, make: Make, tmp_path: Path) -> None:
    flow = make(*definition(), "tcp_ecn = 1")
    before = received_bytes(pair.receiver)
    flow.start()
    assert flow.alive() and flow.failure is None
    assert [pair.sender.run(["cat", file]).strip() for file in ECN_FILES] == ["1", "0"]
    deadline = time.monotonic() + 20
    while received_bytes(pair.receiver) - before < 2_000_000 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert received_bytes(pair.receiver) - before > 2_000_000
    assert flow.stop() == {} and not flow.alive()
    record = flow.record("it", {})
    assert (record["contender"], record["server_port"], record["serves"]) == ("program_it", 5301, False)
    assert (record["sender"], record["receiver"]) == (pair.sender_address, pair.receiver_address)
    assert record["program"] == flow.program.digest and record["end"] > record["start"]
    assert left_behind(tmp_path) == []


@pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed")
@pytest.mark.parametrize("sender", ["client", "server"])
def test_a_tcp_program_may_send_from_either_end(pair: Pair, make: Make, tmp_path: Path, sender: str) -> None:
    reverse = " -R" if sender == "server" else ""
    flow = make(*definition("iperf3 -c {address} -p {port} -t {seconds}" + reverse, "iperf3 -s -p {port}", sender))
    before = received_bytes(pair.receiver)
    flow.start(30)
    deadline = time.monotonic() + 20
    while received_bytes(pair.receiver) - before < 5_000_000 and time.monotonic() < deadline:
        time.sleep(0.05)
    flow.stop()
    assert received_bytes(pair.receiver) - before > 5_000_000
    assert "Server listening" in (tmp_path / "program-it-7.server.log").read_text()
    assert "connected to" in (tmp_path / "program-it-7.client.log").read_text()


def test_a_server_that_ends_is_reported_with_its_output(make: Make, tmp_path: Path) -> None:
    flow = make(*definition(server="sh -c 'echo no such certificate; exit 3' {port}"))
    with pytest.raises(BulkError, match=r"the program it: its server .* ended with exit code 3: no such certificate"):
        flow.start()
    assert not flow.alive() and left_behind(tmp_path) == []


def test_a_server_that_never_opens_its_port_is_ended(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_flow, "_OPEN_S", 3)
    flow = make(*definition(server="sh -c 'echo still thinking; sleep 100' {port}"))
    with pytest.raises(BulkError, match=r"does not open TCP or UDP port 5301 within 3 s: still thinking"):
        flow.start()
    assert left_behind(tmp_path) == []


def test_a_client_that_sends_nothing_is_ended(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program_flow, "_DATA_S", 3)
    flow = make(*definition("sh -c 'echo waiting for a licence; sleep 100' {port}"))
    with pytest.raises(BulkError, match=r"no data to or from port 5301 at receiver within 3 s: .*for a licence"):
        flow.start()
    assert left_behind(tmp_path) == []


def test_a_client_that_crashes_later_is_reported(make: Make, tmp_path: Path) -> None:
    later = tmp_path / "later"
    wait = f"until [ -e {later} ]; do sleep 0.1; done"
    flow = make(*definition(f"sh -c '{SEND} & {wait}; echo out of ideas; kill -SEGV $$'"))
    flow.start()
    later.touch()
    deadline = time.monotonic() + 20
    while flow.alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert flow.failure and "out of ideas" in flow.failure and "client" in flow.failure
    with pytest.raises(BulkError, match="out of ideas"):
        flow.stop()
    assert left_behind(tmp_path) == []  # nor the sender that the client had started


def test_a_program_that_ignores_signals_is_killed_with_its_children(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program_flow, "_GRACE_S", 0.5)
    script = tmp_path / "stubborn.sh"
    script.write_text('#!/bin/sh\ntrap "" TERM INT HUP\n./mine "$@" &\nwhile :; do sleep 1; done\n')
    script.chmod(0o755)
    flow = make(*definition(SEND.replace("mine", "stubborn.sh"), "./stubborn.sh receive {port}"))
    flow.start()
    assert len(left_behind(tmp_path)) >= 4
    began = time.monotonic()
    flow.stop()
    assert time.monotonic() - began < 60
    assert left_behind(tmp_path) == []


def test_of_a_flood_the_beginning_and_the_end_are_kept_and_the_program_never_waits(make: Make, tmp_path: Path) -> None:
    flow = make(*definition(f"sh -c 'seq 1000000; echo last line; exec {SEND}'"))
    flow.start()
    flow.stop()
    said = (tmp_path / "program-it-7.client.log").read_text()
    assert said.startswith("1\n2\n3\n") and said.endswith("1000000\nlast line\n")
    assert "bytes are not kept; the last 65536:]" in said
    assert KEPT_BYTES + 65536 < len(said) < KEPT_BYTES + 65536 + 100


def test_a_program_whose_file_cannot_be_started_is_reported(make: Make) -> None:
    flow = make(*definition(server="nonesuch {port}"))
    with pytest.raises(BulkError, match=r"its server \(nonesuch 5301\) ended with exit code 127: .*not found"):
        flow.start()


def test_files_go_to_hosts_behind_ssh_and_their_programs_end_there(pair: Pair, make: Make, tmp_path: Path) -> None:
    """A shell in the place of ssh: it gets the command as one word, too."""
    flow = make(*definition())
    flow.sender, flow.receiver = (
        Place(place.name, (*place.prefix, "env", f"HOME={tmp_path}", "sh", "-c"), remote=True)
        for place in (pair.sender, pair.receiver)
    )
    flow._places = {"server": flow.receiver, "client": flow.sender}
    (others := Path(f"/tmp/sojourn-{flow.program.digest}")).mkdir(exist_ok=True)  # anyone's
    (others / ".complete").touch()
    folder = tmp_path / f".cache/sojourn/program-{flow.program.digest}"
    try:
        flow.start()
        assert sorted(path.name for path in folder.iterdir()) == [".complete", "mine"]
        assert (folder / "mine").read_bytes() == (tmp_path / "mine").read_bytes()
        assert len(left_behind(folder)) == 2
    finally:
        flow.stop()
        assert left_behind(folder) == []
        shutil.rmtree(others, ignore_errors=True)
