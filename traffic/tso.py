# SPDX-License-Identifier: Apache-2.0
"""How TCP forms and delays packets of several segments: as the kernel does, or as Linux did in 2020."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sojourn.hardware.machine.place import Place
from sojourn.traffic.contender import ContenderError

SWITCH_2020 = "/sys/module/tcp_output/parameters/tso_2020"
"""1: as in 2020, for the whole machine. Only kernels built by Sojourn have this file (hardware/kernel/patches)."""
_ON = ("1", "Y")


@contextmanager
def tso_2020(places: Sequence[Place], on: bool) -> Iterator[None]:
    """Within the block, let TCP at `places` behave as in 2020, or as their kernels do; restore it afterwards.

    Raises `ContenderError` if the kernel cannot.
    """
    before: list[tuple[Place, str]] = []
    try:
        for place in places:
            script = f"[ -e {SWITCH_2020} ] || exit 0; cat {SWITCH_2020}; echo {on:d} >{SWITCH_2020}; cat {SWITCH_2020}"
            output = place.run(["sh", "-c", script], check=False).split()
            if output:
                before.append((place, output[0]))
            if (bool(output) and output[-1] in _ON) is not on:
                what = f"{'has no TSO as in 2020' if on else 'always uses TSO as in 2020'} ({SWITCH_2020})"
                raise ContenderError(
                    f"{place.name}: its kernel {what}; use root there, with the kernel of `sojourn build`"
                )
        yield
    finally:
        for place, was in before:
            place.run(["sh", "-c", f"echo {was} >{SWITCH_2020}"], check=False)
