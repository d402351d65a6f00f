# SPDX-License-Identifier: Apache-2.0
"""Mean opinion scores of a run's phases by the reference software of ITU-T P.1203, if the user has it.

That software is licensed for non-commercial research only: it is neither part of Sojourn nor in a
package registry.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.programs import find
from sojourn.harness.store.loaded import load_victim_run, valid
from sojourn.harness.store.manifest import folder_name
from sojourn.scoring.picture import p1203
from sojourn.scoring.statistics.harm import PRIMARY

PROGRAM = "p1203-standalone"
#: A sequence of the recommendation is one to five minutes long; the model also gives figures for shorter ones.
SHORTEST_S = 60
_TIMEOUT_S = 120


class MosError(CodedError):
    """A run has no opinion score; the message says why and what to do."""


def inputs(run: Path) -> dict[str, dict[str, object]]:
    """Return the input report of every phase of a valid run, by phase name. Raises MosError, LoadError."""
    judged = valid(load_victim_run(run, "mos"))
    scores = judged.scores
    try:
        clip = json.loads((run / "lab.json").read_text()).get("clip") or {}
        if not clip.get("heights"):
            service = judged.options.get("service", "run without renditions")
            why = f"this run is a {service}"
            if scores.primary == PRIMARY["video"]:
                why = "those of a live service and of your own page are not known"
            raise MosError(
                f"{run}: `sojourn mos` judges a video by the bit rates of its renditions; {why}", code="unsupported"
            )
        rates = dict(zip(clip["heights"], clip.get("rates_bps", []), strict=True))
        return {phase.name: p1203.report(scores, phase, rates, float(clip.get("fps", 30))) for phase in scores.phases}
    except (OSError, ValueError) as error:
        raise MosError(f"{run}: {error}", code="missing") from error


def scores(run: Path, folder: Path | None = None) -> dict[str, tuple[float, float]]:
    """Return, by phase, audiovisual quality without stalls (O.35) and overall quality (O.46), both 1 to 5.

    The inputs are written to `folder`, if given, even without the program. Raises MosError, LoadError.
    """
    reports = inputs(run)
    with tempfile.TemporaryDirectory() as scratch:
        place = folder or Path(scratch)
        place.mkdir(parents=True, exist_ok=True)
        files = {name: place / f"{folder_name(name)}.json" for name in reports}
        for name, file in files.items():
            file.write_text(json.dumps(reports[name], indent=1) + "\n")
        program = find(PROGRAM)
        if program is None:
            kept = f"; its inputs are in {folder}" if folder else ""
            raise MosError(
                f"{PROGRAM} is missing: the reference software of ITU-T P.1203, for non-commercial research only; "
                f"docs/scoring.md says where to get it{kept}",
                code="missing-program",
            )
        return {name: _ask(program, file) for name, file in files.items()}


def _ask(program: str, file: Path) -> tuple[float, float]:
    try:
        done = subprocess.run([program, str(file)], capture_output=True, text=True, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise MosError(f"{PROGRAM} gave no answer to {file.name} in {_TIMEOUT_S:g} s", code="no-answer") from error
    try:
        (answer,) = json.loads(done.stdout).values()
        return float(answer["O35"]), float(answer["O46"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise MosError(
            f"{PROGRAM} printed no score for {file.name}: {said[-1] if said else 'no output'}", code="failed"
        ) from error
