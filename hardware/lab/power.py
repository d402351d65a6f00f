# SPDX-License-Identifier: Apache-2.0
"""Power of a lab's machines: a command of this host, or a labgrid target."""

from __future__ import annotations

from sojourn.hardware.lab.lab_file import ACTION, MachineEntry
from sojourn.hardware.lab.labgrid_target import LabgridError, LabgridTarget
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.place import LOCAL, CommandError

ACTIONS = ("on", "off", "cycle", "get")
"""The actions of a switch; `get` changes nothing and succeeds if the switch responds."""
_TIMEOUT_S = 120


class PowerError(CodedError):
    """A machine cannot be switched; one line that names it and the reason."""


def switch(name: str, machine: MachineEntry, action: str) -> str:
    """Do one of `ACTIONS` to the machine `name` and return the switch's output. Raises `PowerError`."""
    if action not in ACTIONS:
        raise PowerError(f"{name}: power: unknown {action!r}; known: {', '.join(ACTIONS)}", code="unknown-value")
    if machine.labgrid:
        try:
            with LabgridTarget(machine.labgrid) as target:
                return target.switch(action)
        except LabgridError as failed:
            raise PowerError(f"{name}: power: {failed}", code="failed") from failed
    if not machine.power:
        raise PowerError(f"{name}: the lab file defines no power switch; add power = [...] or labgrid", code="missing")
    try:
        return LOCAL.run([word.replace(ACTION, action) for word in machine.power], timeout=_TIMEOUT_S).strip()
    except CommandError as failed:
        raise PowerError(f"{name}: power {action}: {failed}", code="failed") from failed
