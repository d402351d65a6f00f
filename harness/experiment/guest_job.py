# SPDX-License-Identifier: Apache-2.0
"""The job of a simulated machine, as JSON, and where host and guest find each other's files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sojourn.apps.base import Service
    from sojourn.harness.matrix.cell import Cell
    from sojourn.harness.options.model import Options

EVIDENCE, CACHE, PACKAGES = Path("/evidence"), Path("/cache"), Path("/sojourn")
"""Where the run's directory, the cache and the Python packages are in the guest."""
SOURCES = PACKAGES / "sojourn"
"""What the host's CHECKOUT is in the guest."""
NEWS, ERROR, VERSIONS = "news", "error", "versions"
"""Files of the job's folder: events, one per line; why the run ended early; versions for the manifest, JSON."""
JOB = "job.json"


def write_job(job: Path, options: Options, service: Service, folders: Mapping[Path, Path]) -> None:
    """Write a run's job into its folder; `folders` maps folders of the host to those of the guest.

    The job has no path of the host, and nothing that tells where, how often or by whom the run is made.
    """
    known = {"options": options.for_guest(EVIDENCE).record(), "prepared": service.prepared}
    _write(job, known, folders)


def read_job(job: Path) -> tuple[Options, Service]:
    """Return the options of the run and its service, with the paths of the guest."""
    from sojourn.apps import SERVICES
    from sojourn.harness.options.model import Options

    known = _read(job)
    options = Options.model_validate_json(json.dumps(known["options"]))
    service = SERVICES[options.service].from_options(options)
    service.take(known["prepared"])
    return options, service


def write_cell(job: Path, cell: Cell, seed: int) -> None:
    """Write the job of a matrix's cell."""
    _write(job, {"cell": cell.model_dump(mode="json"), "seed": seed}, {})


def read_cell(job: Path) -> tuple[Cell, int]:
    """Return the cell to run, and its seed."""
    from sojourn.harness.matrix.cell import Cell

    known = _read(job)
    return Cell.model_validate_json(json.dumps(known["cell"])), known["seed"]


def _write(job: Path, known: Mapping[str, Any], folders: Mapping[Path, Path]) -> None:
    def in_guest(path: Path) -> str:
        for host, guest in folders.items():
            if path.is_relative_to(host):
                return str(guest / path.relative_to(host))
        return str(path)

    (job / JOB).write_text(json.dumps(known, default=in_guest, sort_keys=True, indent=1) + "\n")


def _read(job: Path) -> dict[str, Any]:
    known: dict[str, Any] = json.loads((job / JOB).read_text())
    return known
