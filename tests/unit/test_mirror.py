# SPDX-License-Identifier: Apache-2.0
"""Each module of scoring/ and harness/ has a test file of its name, in its room, or a test imports it."""

from __future__ import annotations

from pathlib import Path

from tests.unit.test_layers import ROOT, imported

KINDS = ("unit", "programs", "lab")
#: Modules that tests reach as parts of a program or of another module → the test file that finds their faults.
AS_PARTS = {
    "harness/api/sojourn.py": "test_wheel",
    "harness/bundle/research_object.py": "test_archive",
    "harness/cli/bundles.py": "test_cli",
    "harness/cli/machines.py": "test_cli",
    "harness/cli/soaks.py": "test_soak",
    "harness/cli/verdicts.py": "test_one_door",
    "harness/matrix/listing.py": "test_matrix",
    "harness/matrix/plugin.py": "test_bad_input",
    "harness/matrix/progress.py": "test_matrix",
    "harness/report/html.py": "test_run_page",
    "harness/soak/disk.py": "test_loop",
    "scoring/curves.py": "test_score",
    "scoring/gates/files.py": "test_registry",
    "scoring/gates/probes.py": "test_two_probes",
    "scoring/picture/blind/viewer.py": "test_scorers",
    "scoring/schema/windows.py": "test_score",
}
MODULES = sorted(
    path.relative_to(ROOT)
    for room in ("scoring", "harness")
    for path in (ROOT / room).rglob("*.py")
    if not path.stem.startswith("__")
)


def untested() -> list[Path]:
    """The modules that no test file is called after and no test imports."""
    tests = {path: path.read_text() for path in (ROOT / "tests").rglob("*.py")}
    direct = {name.removeprefix("sojourn.") for text in tests.values() for name in imported(text)}
    return [
        module
        for module in MODULES
        if not any((ROOT / "tests" / kind / module.parent / f"test_{module.stem}.py") in tests for kind in KINDS)
        and ".".join(module.with_suffix("").parts) not in direct
    ]


def test_a_module_has_tests_of_its_name_or_is_imported_by_one() -> None:
    assert [str(module) for module in untested() if str(module) not in AS_PARTS] == []


def test_what_is_tested_as_a_part_is_there_and_so_is_its_test() -> None:
    assert AS_PARTS.keys() <= {*map(str, untested())}
    assert set(AS_PARTS.values()) <= {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
