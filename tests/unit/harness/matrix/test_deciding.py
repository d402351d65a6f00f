# SPDX-License-Identifier: Apache-2.0
"""A run is made again when any source that decides it has changed, and for no other's sake."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.matrix import cell_run, deciding
from harness.matrix.deciding import sources

SOURCES = {
    "harness/run.py": "import traffic.flow\nif TYPE_CHECKING:\n    from harness import told\n",
    "harness/told.py": "",
    "harness/page.py": "import harness.run",
    "traffic/__init__.py": "",
    "traffic/flow.py": "def start():\n    from traffic.deep import leaf, NAME\n",
    "traffic/deep/__init__.py": "",
    "traffic/deep/leaf.py": "import os",
    "traffic/deep/other.py": "",
    "traffic/deep/page.js": "",
}


def paths(*modules: str, checkout: Path) -> list[str]:
    deciding.sources.cache_clear()
    return [name for name, _ in sources(*modules, checkout=checkout)]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name, text in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_what_is_imported_anywhere_decides_and_what_lies_beside_it(checkout: Path) -> None:
    assert paths("harness.run", checkout=checkout) == [
        "harness/run.py", "traffic/__init__.py", "traffic/deep/__init__.py", "traffic/deep/leaf.py",
        "traffic/deep/page.js", "traffic/flow.py",
    ]  # fmt: skip


def test_a_change_in_any_of_these_is_another_digest(checkout: Path) -> None:
    before = sources("harness.run", checkout=checkout)
    for name in ("harness/run.py", "traffic/deep/leaf.py", "traffic/deep/page.js"):
        (checkout / name).write_text(SOURCES[name] + "\n# changed")
        deciding.sources.cache_clear()
        assert sources("harness.run", checkout=checkout) != before, name
        (checkout / name).write_text(SOURCES[name])
    (checkout / "harness" / "page.py").write_text("print()")
    deciding.sources.cache_clear()
    assert sources("harness.run", checkout=checkout) == before


@pytest.mark.parametrize(
    ("modules", "some"),
    [
        (cell_run._SIMULATED, {"bottleneck/qdiscs/dualpi2.py", "traffic/irtt.py", "hardware/node.py"}),
        (cell_run._REAL_TIME, {"bottleneck/qdiscs/dualpi2.py", "hardware/machine/place.py", "apps/browsers/browser.py",
                               "apps/standins/call/call.js", "captures/packets.py", "scoring/validity.py"}),
        (cell_run._SCORING, {"scoring/steady.py"}),
    ],
)  # fmt: skip
def test_the_real_runs_follow_their_own_sources(modules: tuple[str, ...], some: set[str]) -> None:
    names = {name for name, _ in sources(*modules)}
    assert some <= names
    assert not any(name.startswith(("harness/report", "harness/soak", "harness/cli", "tests/")) for name in names)


@pytest.mark.parametrize("modules", [cell_run._SIMULATED, cell_run._REAL_TIME])
def test_a_change_of_how_cells_are_scored_makes_no_run_again(modules: tuple[str, ...]) -> None:
    assert "scoring/transport.py" not in {name for name, _ in sources(*modules)}
