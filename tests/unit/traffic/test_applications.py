# SPDX-License-Identifier: Apache-2.0
"""A web user fetches the same in every phase of a run; another user of the load, and another run, does not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sojourn.hardware.machine.place import Place
from sojourn.harness.experiment.recording import _Recording
from sojourn.harness.options.timeline import Phase, parse_timeline
from sojourn.traffic.applications import WebUser

HERE = Place("here", ())


def drawn(folder: Path, seed: int, phase: Phase, before: int) -> list[Any]:
    """Return the draws of the web users of a phase, before which a run of this seed has had `before` others."""
    users = []
    addresses = SimpleNamespace(client="10.42.1.10", server="10.42.2.10")
    recording = SimpleNamespace(
        lab=SimpleNamespace(client=HERE, server=HERE, addresses=addresses), folder=folder,
        options=SimpleNamespace(seed=seed, game_dscp=0), phases=[{}] * before,
    )  # fmt: skip
    for number, user in enumerate(_Recording._applications(cast(Any, recording), phase)):
        if isinstance(user, WebUser):
            (folder / "logs" / f"web-{before}-{number}-fetch.jsonl").write_text("")
            users.append(user.result_record()["draw"])
    return users


@pytest.mark.parametrize("seed", [1, 12, -3])
def test_a_web_user_fetches_the_same_in_every_phase(tmp_path: Path, seed: int) -> None:
    (tmp_path / "logs").mkdir()
    _, alone, updated, game = parse_timeline("solo:20,web*2:20,web*2+cubic:20,web+game:20")
    every = [drawn(tmp_path, seed, phase, before) for before, phase in ((3, alone), (14, updated), (15, game))]
    assert every[0] == every[1] == [f"{seed}-0", f"{seed}-1"] and every[2] == every[0][:1]
