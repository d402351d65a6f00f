# SPDX-License-Identifier: Apache-2.0
"""Each module of scoring/ and harness/ has a test file of its name, in its room, or is tested where this says."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
KINDS = ("unit", "programs", "lab")
#: Modules without a test file of their name, and the one that tests them: mostly parts of what is tested as a whole.
ELSEWHERE = {
    "scoring/baseline.py": "programs/scoring/test_score.py",
    "scoring/blind/motion.py": "unit/scoring/blind/test_stills.py",
    "scoring/blind/viewer.py": "lab/test_scorers.py",
    "scoring/columns.py": "unit/scoring/test_transport.py",
    "scoring/contenders.py": "programs/scoring/test_score.py",
    "scoring/curves.py": "programs/scoring/test_score.py",
    "scoring/evidence.py": "programs/scoring/test_damaged_run.py",
    "scoring/frames.py": "unit/scoring/test_freezes.py",
    "scoring/gates/advertisements.py": "unit/scoring/test_gates.py",
    "scoring/gates/base.py": "unit/scoring/test_gates.py",
    "scoring/metrics.py": "programs/scoring/test_score.py",
    "scoring/pcapng.py": "unit/scoring/test_packets.py",
    "scoring/picture.py": "programs/scoring/test_score.py",
    "scoring/picture_quality.py": "programs/harness/report/test_picture_quality.py",
    "scoring/records.py": "programs/scoring/test_damaged_run.py",
    "scoring/scores.py": "programs/scoring/test_score.py",
    "scoring/time_series.py": "unit/harness/report/test_run_page.py",
    "scoring/windows.py": "programs/scoring/test_score.py",
    "harness/api/sojourn.py": "programs/harness/report/test_data.py",
    "harness/bundle/capture.py": "unit/harness/bundle/test_anonymise.py",
    "harness/bundle/export.py": "unit/harness/bundle/test_archive.py",
    "harness/bundle/pseudonyms.py": "unit/harness/bundle/test_anonymise.py",
    "harness/bundle/research_object.py": "unit/harness/bundle/test_archive.py",
    "harness/cli/bundles.py": "programs/harness/cli/test_cli.py",
    "harness/cli/common.py": "programs/harness/cli/test_cli.py",
    "harness/cli/machines.py": "programs/harness/cli/test_cli.py",
    "harness/cli/matrices.py": "lab/test_matrix.py",
    "harness/cli/nights.py": "lab/test_soak.py",
    "harness/cli/runs.py": "programs/harness/cli/test_cli.py",
    "harness/cli/verdicts.py": "programs/harness/cli/test_one_door.py",
    "harness/experiment/between.py": "lab/one_run/test_main_job.py",
    "harness/experiment/inside.py": "lab/test_simulated.py",
    "harness/options/model.py": "unit/harness/options/test_options.py",
    "harness/experiment/plugin.py": "lab/test_bad_input.py",
    "harness/experiment/score_check.py": "programs/scoring/test_changed_run.py",
    "harness/experiment/recording.py": "lab/one_run/test_main_job.py",
    "harness/lab/contract.py": "lab/real_time/test_virtual.py",
    "harness/lab/instruments.py": "lab/one_run/test_main_job.py",
    "harness/lab/make.py": "lab/real_time/test_virtual.py",
    "harness/lab/physical.py": "lab/real_time/test_physical.py",
    "harness/lab/simulated.py": "lab/one_run/test_main_job.py",
    "harness/lab/uplink.py": "lab/real_time/test_uplink.py",
    "harness/lab/virtual.py": "lab/real_time/test_virtual.py",
    "harness/matrix/cases.py": "lab/test_matrix.py",
    "harness/matrix/cell_page.py": "unit/harness/matrix/test_report.py",
    "harness/matrix/cell_run.py": "programs/harness/matrix/test_engine.py",
    "harness/matrix/flent.py": "unit/harness/matrix/test_report.py",
    "harness/matrix/lab_engine.py": "lab/real_time/test_real_time_cell.py",
    "harness/matrix/listing.py": "lab/test_matrix.py",
    "harness/matrix/plugin.py": "lab/test_matrix.py",
    "harness/matrix/progress.py": "lab/test_matrix.py",
    "harness/matrix/real_call.py": "lab/test_simulated_cell.py",
    "harness/matrix/results.py": "unit/harness/matrix/test_matrix.py",
    "harness/matrix/session.py": "unit/harness/matrix/test_matrix.py",
    "harness/matrix/simulated_call.py": "lab/test_simulated_cell.py",
    "harness/report/beside_published.py": "unit/harness/report/test_run_page.py",
    "harness/report/grids.py": "unit/harness/report/test_run_page.py",
    "harness/report/html.py": "unit/harness/report/test_run_page.py",
    "harness/report/terminal.py": "unit/harness/report/test_repetitions.py",
    "harness/report/timeline_figure.py": "unit/harness/report/test_run_page.py",
    "harness/soak/child.py": "lab/test_soak.py",
    "harness/soak/disk.py": "programs/harness/soak/test_loop.py",
    "harness/soak/leaks.py": "programs/harness/soak/test_loop.py",
    "harness/soak/night.py": "programs/harness/soak/test_status.py",
    "harness/soak/rounds.py": "unit/harness/soak/test_plan.py",
    "harness/soak/serve.py": "programs/harness/soak/test_status.py",
    "harness/soak/state.py": "programs/harness/soak/test_loop.py",
    "harness/soak/summary.py": "programs/harness/soak/test_status.py",
    "harness/soak/supervise.py": "programs/harness/soak/test_loop.py",
    "harness/store/claim.py": "programs/harness/matrix/test_engine.py",
    "harness/store/loaded.py": "unit/harness/report/test_run_page.py",
    "harness/store/manifest.py": "unit/harness/store/test_runs.py",
    "harness/terminal.py": "programs/harness/experiment/test_progress.py",
}
MODULES = sorted(
    path.relative_to(ROOT)
    for room in ("scoring", "harness")
    for path in (ROOT / room).rglob("*.py")
    if not path.stem.startswith("__")
)


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_has_tests_of_its_name_or_told_elsewhere(module: Path) -> None:
    of_its_name = [ROOT / "tests" / kind / module.parent / f"test_{module.stem}.py" for kind in KINDS]
    own = [path for path in of_its_name if path.exists()]
    told = ELSEWHERE.get(str(module))
    assert own or told, f"{module}: no tests/*/{module.parent}/test_{module.stem}.py, and none is told of in ELSEWHERE"
    assert not (own and told), f"{module}: has {own[0].relative_to(ROOT)}; take it out of ELSEWHERE"
    assert own or (ROOT / "tests" / str(told)).exists(), f"{module}: tests/{told} is not there"


def test_only_modules_that_are_there_are_told_of() -> None:
    assert ELSEWHERE.keys() <= set(map(str, MODULES))
