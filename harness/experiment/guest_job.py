# SPDX-License-Identifier: Apache-2.0
"""What goes into a simulated machine and comes back: the job, and where both sides find what the other wrote."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.options.model import LOCAL

if TYPE_CHECKING:
    from apps.base import Service
    from harness.matrix.cell import Cell
    from harness.options.model import Options

EVIDENCE, CACHE, SOURCES = Path("/evidence"), Path("/cache"), Path("/sojourn")
"""Where the run's directory, the cache and the project's packages are inside."""
NEWS, ERROR, VERSIONS = "news", "error", "versions"
"""Files of the job's folder: what happens, line by line; why it ended early; versions for the manifest, JSON."""
_JOB = "job.pickle"


class _Packer(pickle.Pickler):
    """Tells a path by where it is inside, so that no two hosts hand over other bytes."""

    def __init__(self, out: io.BytesIO, folders: Mapping[Path, Path]) -> None:
        super().__init__(out, protocol=5)
        # Else it would show whether two equal words are one object: whether an option was given or left to its default.
        self.fast = True
        self._folders = folders

    def persistent_id(self, value: Any) -> str | None:
        if not isinstance(value, Path):
            return None
        for outside, inside in self._folders.items():
            if value.is_relative_to(outside):
                return str(inside / value.relative_to(outside))
        return str(value)


class _Unpacker(pickle.Unpickler):
    def persistent_load(self, told: Any) -> Path:
        return Path(told)


def write_job(job: Path, options: Options, service: Service, folders: Mapping[Path, Path]) -> None:
    """Write what a machine shall do into its job's folder; `folders` are those of the host by where they are inside.

    What the user calls the evidence, how often it is made and where, does not get in.
    """
    inside = options.but(
        results=EVIDENCE, lab_file=EVIDENCE, kernel_source=None, credentials=None, clip=None, script=None, url="",
        repeat=None, asked_lab="", engine=LOCAL, sign=None,
    )  # fmt: skip
    _write(job, (inside, service), folders)


def read_job(job: Path) -> tuple[Options, Service]:
    """Return what is asked of the machine, its paths as they are inside."""
    options, service = _read(job)
    return options, service


def write_cell(job: Path, cell: Cell, seed: int) -> None:
    """The same for a cell of a matrix; as text, since a model's sets have another order in each process."""
    _write(job, (cell.model_dump_json(), seed), {})


def read_cell(job: Path) -> tuple[Cell, int]:
    """Return the cell that the machine shall run, and its seed."""
    from harness.matrix.cell import Cell

    text, seed = _read(job)
    return Cell.model_validate_json(text), seed


def _write(job: Path, value: Any, folders: Mapping[Path, Path]) -> None:
    packed = io.BytesIO()
    _Packer(packed, folders).dump(value)
    (job / _JOB).write_bytes(packed.getvalue())


def _read(job: Path) -> Any:
    return _Unpacker(io.BytesIO((job / _JOB).read_bytes())).load()
