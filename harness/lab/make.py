# SPDX-License-Identifier: Apache-2.0
"""Set up a real-time lab for its experiments: the virtual APU, or the machines of a lab file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.kernel_build.sources import OURS, Sources
from sojourn.hardware.lab.lab_file import LabFile
from sojourn.hardware.machine.cache import ProgressCallback
from sojourn.hardware.machine.ip import IpVersion
from sojourn.harness.lab.contract import LabFactory
from sojourn.harness.lab.physical import PhysicalLab
from sojourn.harness.lab.uplink import check as check_uplink
from sojourn.harness.lab.virtual import ONE_CORE_BPS, VirtualLab

Step = Callable[[str], ProgressCallback]
"""Begins a step of a set-up, see `sojourn.harness.terminal.steps`."""


def lab_maker(
    machines: LabFile | None,
    rates_bps: Iterable[int],
    notify: Callable[[str], None],
    *,
    steps_bps: Sequence[int] = (),
    sources: Sources = OURS,
    uplink: str | None = None,
    version: IpVersion = 4,
    step: Step = lambda _: lambda *_: None,
) -> Callable[[Path], LabFactory]:
    """Build what a lab needs; the result creates the lab, given the folder for its machines' output.

    Args:
        machines: the machines of the physical lab; None: the virtual lab.
        rates_bps: of all its bottlenecks.
        notify: receives lines about what the physical lab does or finds.
        steps_bps: the rates that they change to.
        sources: of the virtual lab's kernel and tc.
        uplink: see VirtualLab.
        version: IP version of the virtual lab; the physical lab has that of its addresses.

    Raises BuildError, ToolError.
    """
    if machines:
        return lambda folder: PhysicalLab(machines, folder, notify, steps_bps)
    if uplink:
        check_uplink()
    guest = ensure_guest(step("guest root"))
    kernel = ensure_kernel(sources, step("kernel"))
    one_core = max(rates_bps, default=0) <= ONE_CORE_BPS
    return lambda folder: VirtualLab(kernel, guest, folder, one_core=one_core, version=version, uplink=uplink)
