# SPDX-License-Identifier: Apache-2.0
"""How TCP makes and holds back packets of several segments: as the kernel does it, or as Linux did in 2020."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hardware.machine.place import Place
from traffic.contender import ContenderError

SWITCH_2020 = "/sys/module/tcp_output/parameters/tso_2020"
"""1: as in 2020, for the whole machine; a file that kernels have which Sojourn built (hardware/patches.py)."""


@contextmanager
def tso_2020(places: Sequence[Place]) -> Iterator[None]:
    """Have TCP at `places` do it as in 2020 within the block. Raises `ContenderError` where the kernel cannot."""
    try:
        for place in places:
            on = place.run(["sh", "-c", f"echo 1 >{SWITCH_2020} && cat {SWITCH_2020}"], check=False).strip()
            if on not in ("1", "Y"):
                raise ContenderError(
                    f"{place.name}: its kernel has no TSO of 2020 ({SWITCH_2020}); `sojourn build` has"
                )
        yield
    finally:
        for place in places:
            place.run(["sh", "-c", f"echo 0 >{SWITCH_2020}"], check=False)
