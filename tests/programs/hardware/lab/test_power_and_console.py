# SPDX-License-Identifier: Apache-2.0
"""Power and console by commands and by labgrid's own drivers: done, told, refused with the reason."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from sojourn.hardware.lab.console import ConsoleError, ConsoleLog, answer, open_console
from sojourn.hardware.lab.lab_file import Labgrid, MachineEntry
from sojourn.hardware.lab.power import PowerError, switch
from sojourn.hardware.machine.errors import Code
from tests.refusals import refusal

#: A console with a login prompt on it; it answers each line.
GETTY = [sys.executable, "-uc", "import sys\nfor line in sys.stdin: print('apu login:', end='')"]
ENVIRONMENT = """
targets:
  main:
    drivers:
    - ExternalPowerDriver:
        cmd_on: 'sh -c "echo on >> {switched}"'
        cmd_off: 'sh -c "echo off >> {switched}"'
        cmd_cycle: 'sh -c "echo cycle >> {switched}"'
    - ExternalConsoleDriver:
        cmd: '{getty}'
  bare:
    drivers: []
"""


@pytest.fixture(params=["command", "labgrid"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> MachineEntry:
    """A machine whose switch notes what it does in a file, by either way."""
    switched = tmp_path / "switched"
    if request.param == "command":
        return MachineEntry(power=["sh", "-c", f"test {{action}} = get || echo {{action}} >>{switched}"], serial=GETTY)
    pytest.importorskip("labgrid")
    (getty := tmp_path / "getty.py").write_text(GETTY[2])
    (file := tmp_path / "apu.yaml").write_text(
        ENVIRONMENT.format(switched=switched, getty=f"{sys.executable} -u {getty}")
    )
    return MachineEntry(labgrid=Labgrid(environment=file))


def test_a_switch_does_what_it_is_asked(machine: MachineEntry, tmp_path: Path) -> None:
    for action in ("off", "on", "cycle", "get"):
        switch("router", machine, action)
    assert (tmp_path / "switched").read_text().split() == ["off", "on", "cycle"]
    with refusal(PowerError, "unknown-value", "router: power: ", "'reboot'", "on, off, cycle, get"):
        switch("router", machine, "reboot")


def test_a_console_answers_and_is_logged(machine: MachineEntry, tmp_path: Path) -> None:
    console = open_console(machine)
    assert console
    assert answer(console) == b"apu login:"
    log = ConsoleLog(console, tmp_path / "console.log").start()
    console.write(b"\n")
    deadline = time.monotonic() + 5
    while not (tmp_path / "console.log").read_bytes():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    log.stop()
    assert (tmp_path / "console.log").read_bytes() == b"apu login:" and log.error is None


@pytest.mark.parametrize(
    ("power", "why"),
    [
        (["false", "{action}"], ("failed", "router: power on: local: false on: exit code 1")),
        (["/no/switch", "{action}"], ("failed", "router: power on: local: /no/switch on: ", "No such file")),
        (None, ("missing", "router: ", " power = [...]", "labgrid")),
    ],
)
def test_a_switch_that_fails_is_named(power: Any, why: tuple[Code, *tuple[str, ...]]) -> None:
    with refusal(PowerError, *why):
        switch("router", MachineEntry(power=power), "on")


def test_a_console_that_ends_is_named_and_its_log_stays(tmp_path: Path) -> None:
    console = open_console(MachineEntry(serial=["sh", "-c", "echo Oops; echo cable out >&2"]))
    assert console
    log = ConsoleLog(console, tmp_path / "console.log").start()
    deadline = time.monotonic() + 5
    while log.error is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    log.stop()
    assert (tmp_path / "console.log").read_bytes() == b"Oops\n"
    assert isinstance(log.error, ConsoleError) and "sh has ended: cable out" in str(log.error)
    assert open_console(MachineEntry()) is None


def test_a_labgrid_target_or_driver_that_is_not_there_is_named(tmp_path: Path) -> None:
    pytest.importorskip("labgrid")
    (file := tmp_path / "apu.yaml").write_text(ENVIRONMENT)
    for target, says in (("apu", "apu: no such target; known: main, bare"), ("bare", "bare: PowerProtocol: ")):
        with pytest.raises(PowerError, match=f"^router: power: labgrid .*apu.yaml: {says}"):
            switch("router", MachineEntry(labgrid=Labgrid(environment=file, target=target)), "on")
