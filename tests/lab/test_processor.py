# SPDX-License-Identifier: Apache-2.0
"""Programs in simulated time see nothing of the host's processor that differs between runs or machines."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from struct import pack
from typing import Any

import pytest

from sojourn.hardware.machine.programs import FLAGS, processor
from sojourn.hardware.simulation import ONE_PROCESSOR, shown_processor
from tests.lab import processor_inside
from tests.lab.inside import run_inside

pytestmark = pytest.mark.lab


@pytest.fixture(scope="module", params=[False, True], ids=["seccomp", "ptrace"])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("processor")
    run_inside(Path(processor_inside.__file__), folder, untrusted=request.param)
    told: dict[str, Any] = json.loads((folder / "processor.json").read_text())
    return told


def test_its_counter_is_the_simulated_clock(seen: dict[str, Any]) -> None:
    readings = seen["readings"]
    for before, counter, numbered, after in readings:
        assert before <= counter <= numbered <= after <= before + 1000
    for first, second in pairwise(readings):
        assert second[1] - first[1] == pytest.approx(100e6, abs=1e6), "the sleep takes 0.1 s by the counter too"
    assert seen["number"] == 0
    assert seen["waited"] >= 1000, "a loop that waits for the counter ends"


def test_its_description_has_nothing_of_the_host(seen: dict[str, Any]) -> None:
    lines = dict(line.split(":", 1) for line in seen["cpuinfo"].replace("\t", "").splitlines() if line)
    assert set(lines) == {"processor", "vendor_id", "model name", "mode", "fpu", "flags"}
    assert {"ssse3", "sse4_2"} <= set(lines["flags"].split()) and "avx" not in lines["flags"]


def test_cpuid_shows_one_processor_where_the_manifest_says_so(seen: dict[str, Any]) -> None:
    leaves = seen["leaves"]
    shown = pack("<4I", *leaves["0x80000002 0"]) == b"Simulated time\0\0"
    assert shown == (shown_processor(processor()[FLAGS]) == ONE_PROCESSOR)
    if shown:
        avx, rdrand = 1 << 28, 1 << 30
        assert leaves["0x1 0"][2] & (avx | rdrand) == avx
        avx2, all_of_avx512 = 1 << 5, 1 << 16 | 1 << 17 | 1 << 21 | 1 << 28 | 1 << 30 | 1 << 31
        assert leaves["0x7 0"][1] & (avx2 | all_of_avx512) == avx2
        assert leaves["0x40000000 0"] == [0, 0, 0, 0], "no hypervisor"
