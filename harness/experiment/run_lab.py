# SPDX-License-Identifier: Apache-2.0
"""A lab with what the options of a run add to it."""

from __future__ import annotations

from pathlib import Path

from sojourn.harness.lab.contract import LabFactory, WithPrograms
from sojourn.harness.lab.responsiveness import WithForeignProbes
from sojourn.harness.options.model import Options
from sojourn.traffic.rpm_programs import interval_s


def with_parts(lab: LabFactory, options: Options, folder: Path) -> LabFactory:
    """Return a lab with the user's programs at its hosts, and with foreign probes, which are recorded in `folder`."""
    lab = WithPrograms(lab, options.programs)
    if options.rpm:
        lab = WithForeignProbes(lab, folder, interval_s(options.rate_down_bps, options.rate_up_bps))
    return lab
