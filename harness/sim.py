# SPDX-License-Identifier: Apache-2.0
"""The simulated lab: one cell in one node of simulated time, its measurements left in a folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

from bottleneck.readback import ReadbackError
from hardware import simulation
from hardware.build import Kernel, ensure_kernel
from hardware.guest import Guest, ensure_guest
from hardware.simulation import SimulationError
from harness import sim_plan
from harness.cell import Cell
from traffic.bulk import ensure_bulk

Endpoints = Literal["bulk", "iperf3"]


@cache
def parts() -> tuple[Kernel, Guest, Path]:
    """Kernel, guest and the program of all endpoints, built if need be; once for a process.

    Raises :class:`harness.cache.BuildError`.
    """
    return ensure_kernel(), ensure_guest(), ensure_bulk()


def versions() -> dict[str, str]:
    """What the results depend on besides cell and seed: kernel, guest and the program of all endpoints, by digest."""
    kernel, guest, program = parts()
    return {
        "kernel": kernel.digest,
        "release": kernel.version,
        "source": kernel.source,
        "guest": guest.digest,
        "bulk": program.parent.name,
    }


def run_cell(
    cell: Cell,
    folder: Path,
    *,
    seed: int,
    core: int | None = None,
    endpoints: Endpoints = "bulk",
    timeout_s: float = 300,
) -> None:
    """Run ``cell`` in simulated time and leave its results in ``folder``, which is there and empty.

    The same seed gives the same bytes in every file. docs/simulated-time.md lists the files and their columns.

    Args:
        core: the processor to stay on; default: the first that we may use.
        timeout_s: wall time, s.

    Raises:
        SimulationError: the cell cannot run here, the node hung or failed, or its configuration is not the one asked
            for; the message ends with what was said last.
        BuildError: kernel, guest or program cannot be built.
    """
    if cell.needs:
        raise SimulationError(f"cell {cell.name}: needs {cell.needs}")
    kernel, guest, program = parts()
    script = sim_plan.job(cell, seed)
    (folder / "run").write_text(script)
    (folder / "run").chmod(0o755)
    shutil.copy(program, folder / "bulk")
    try:
        simulation.run(kernel, guest, folder, seed=seed, core=core, timeout=timeout_s)
    except SimulationError as failed:
        raise SimulationError(f"cell {cell.name}, seed {seed}: {failed}") from failed
    answers = {file.name.removeprefix("readback-"): file.read_text() for file in sorted(folder.glob("readback-*"))}
    log = "".join(f"\n[{space}] tc -s -d -j\n{text}" for space, text in answers.items())
    (folder / "setup.log").write_text(script + (folder / "out").read_text() + (folder / "err").read_text() + log)
    if found := sim_plan.differences(cell, answers):
        raise SimulationError(f"cell {cell.name}: {ReadbackError(found)}")
    with (folder / "queues.jsonl").open("w") as out:
        out.writelines(json.dumps(line) + "\n" for line in queues((folder / "queues").read_text()))
    made = {"cell": cell.model_dump(mode="json"), "seed": seed, "endpoints": endpoints, "kernel": versions()}
    (folder / "cell.json").write_text(json.dumps(made, indent=1) + "\n")
    for name in ("run", "bulk", "out", "err", "status", "queues", *(f"readback-{space}" for space in answers)):
        (folder / name).unlink()


def queues(text: str) -> Iterator[dict[str, Any]]:
    """Yield the lines of queues.jsonl from what the program of all endpoints wrote into `queues`."""
    for line in text.splitlines():
        at, space, answer = line.split(" ", 2)
        qdiscs = json.loads(answer)
        for dev in ("lan", "wan"):
            found = [q for q in qdiscs if q["dev"] == dev]
            yield {"t": float(at), "hop": int(space.removeprefix("hop")), "dev": dev, "qdiscs": found}
