# SPDX-License-Identifier: Apache-2.0
"""Each module of scoring/ and harness/ has a test file of its name, in its room, or a test imports it."""

from __future__ import annotations

from pathlib import Path

from tests.unit.test_layers import ROOT, imported

KINDS = ("unit", "programs", "lab")
#: Modules that tests reach as parts of a program or of another module, by name → the test file that finds their faults.
#: Neither is a path, so that a move changes nothing here.
AS_PARTS = {
    "probes": "test_two_probes",
    "bundles": "test_cli",
    "child": "test_soak",
    "curves": "test_score",
    "disk": "test_loop",
    "files": "test_registry",
    "html": "test_run_page",
    "listing": "test_matrix",
    "machines": "test_cli",
    "make": "test_run",
    "soaks": "test_soak",
    "plugin": "test_bad_input",
    "progress": "test_matrix",
    "research_object": "test_archive",
    "runs": "test_cli",
    "sojourn": "test_wheel",
    "verdicts": "test_one_door",
    "viewer": "test_scorers",
    "windows": "test_score",
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
    assert [str(module) for module in untested() if module.stem not in AS_PARTS] == []


def test_what_is_tested_as_a_part_is_there_and_so_is_its_test() -> None:
    assert AS_PARTS.keys() <= {module.stem for module in untested()}
    assert set(AS_PARTS.values()) <= {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
