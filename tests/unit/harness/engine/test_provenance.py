# SPDX-License-Identifier: Apache-2.0
"""A run is made again when any source that decides it has changed, and for no other's sake."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from sojourn.harness.engine import provenance
from sojourn.harness.engine.provenance import SourceFiles, source_files
from sojourn.harness.matrix.cells import cell_run

SOURCES = {
    "harness/run.py": "import sojourn.traffic.flow\nif TYPE_CHECKING:\n    from sojourn.harness import told\n",
    "harness/told.py": "",
    "harness/page.py": "import sojourn.harness.run",
    "traffic/__init__.py": "",
    "traffic/flow.py": "def start():\n    from sojourn.traffic.deep import leaf, NAME\n",
    "traffic/deep/__init__.py": "",
    "traffic/deep/leaf.py": "import os",
    "traffic/deep/other.py": "",
    "traffic/deep/page.js": "",
}


def found(*modules: str, checkout: Path) -> SourceFiles:
    """As a process finds them that has just begun."""
    for cached in (provenance.source_files, provenance._contents, provenance._listed, provenance._content):
        cached.cache_clear()
    return source_files(*modules, checkout=checkout)


def names(files: SourceFiles, checkout: Path) -> list[str]:
    return [name for name, _ in files.contents(checkout)]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_what_is_imported_anywhere_decides_and_what_lies_beside_it(checkout: Path) -> None:
    assert names(found("sojourn.harness.run", checkout=checkout), checkout) == [
        "harness/run.py", "traffic/__init__.py", "traffic/deep/__init__.py", "traffic/deep/leaf.py",
        "traffic/deep/page.js", "traffic/flow.py",
    ]  # fmt: skip


def test_a_change_in_any_of_these_is_another_digest(checkout: Path) -> None:
    before = found("sojourn.harness.run", checkout=checkout).contents(checkout)
    for name in ("harness/run.py", "traffic/deep/leaf.py", "traffic/deep/page.js"):
        (checkout / name).write_text(SOURCES[name] + "\n# changed")
        assert found("sojourn.harness.run", checkout=checkout).contents(checkout) != before, name
        (checkout / name).write_text(SOURCES[name])
    (checkout / "harness" / "page.py").write_text("print()")
    assert found("sojourn.harness.run", checkout=checkout).contents(checkout) == before


def test_a_folder_of_that_name_is_another_projects_where_sojourn_does_not_name_it(checkout: Path) -> None:
    (checkout / "harness" / "run.py").write_text("import traffic.flow")
    assert names(found("sojourn.harness.run", checkout=checkout), checkout) == ["harness/run.py"]


def test_a_worker_reads_its_own_files_of_those_found_elsewhere(checkout: Path, tmp_path_factory: Any) -> None:
    (checkout / "traffic" / "deep" / "leaf.py").write_text("from sojourn.hardware.machine.discovery import defined_in")
    shipped = pickle.loads(pickle.dumps(found("sojourn.harness.run", checkout=checkout)))
    ours = shipped.contents(checkout)
    assert {"traffic/deep/other.py", "traffic/deep/page.js"} <= {name for name, _ in ours}

    def there(name: str, text: str | None) -> tuple[tuple[str, bytes], ...]:
        """What a worker reads whose checkout has another text of one file, or lacks it."""
        worker = tmp_path_factory.mktemp("worker")
        shutil.copytree(checkout, worker, dirs_exist_ok=True)
        (worker / name).unlink(missing_ok=True)
        if text is not None:
            (worker / name).write_text(text)
        return shipped.contents(worker)

    assert there("harness/page.py", "print()") == ours
    assert there("traffic/flow.py", "import sojourn.traffic.deep.leaf, sojourn.traffic.new") != ours
    assert there("traffic/deep/leaf.py", None) != ours
    assert there("traffic/deep/another.js", "") != ours, "a file that is read, and that only the worker has"
    assert there("traffic/deep/another.py", "") != ours, "a module that is taken where it lies"


@pytest.mark.parametrize(
    ("modules", "some"),
    [
        (cell_run._SIMULATED, {"bottleneck/qdiscs/dualpi2.py", "traffic/irtt.py", "hardware/node.py"}),
        (cell_run._REAL_TIME, {"bottleneck/qdiscs/dualpi2.py", "hardware/machine/place.py", "apps/browsers/browser.py",
                               "apps/standins/call/call.js", "captures/packets.py", "scoring/validity.py"}),
        (provenance.CELL_SCORING, {"scoring/transport/steady.py"}),
    ],
)  # fmt: skip
def test_the_real_runs_follow_their_own_sources(modules: tuple[str, ...], some: set[str]) -> None:
    read = {name for name, _ in source_files(*modules).contents()}
    assert some <= read
    assert not any(name.startswith(("harness/report", "harness/soak", "harness/cli", "tests/")) for name in read)


@pytest.mark.parametrize("modules", [cell_run._SIMULATED, cell_run._REAL_TIME])
def test_a_change_of_how_cells_are_scored_makes_no_run_again(modules: tuple[str, ...]) -> None:
    assert "scoring/transport/cell_scores.py" not in {name for name, _ in source_files(*modules).contents()}
