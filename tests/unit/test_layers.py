# SPDX-License-Identifier: Apache-2.0
"""The order of the rooms, and of those in harness/: each imports only itself and what stands to its left.

All of it is imported as part of `sojourn`, and nothing in circles.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("hardware", "traffic", "bottleneck", "scoring", "captures", "apps", "harness")
"""From left to right, as CONTRIBUTING.md tells."""
INSIDE = (
    "terminal", "options", "store", "lab", "engine", "report", "bundle", "experiment", "matrix", "soak", "cli", "start",
    "api",
)  # fmt: skip
"""The same in harness/. A run ends with its report, so reports and bundles are to the left of what makes runs."""


def imported(source: str) -> Iterator[str]:
    """Every module that a source imports, wherever in it, as it is named there."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
            yield from (f"{node.module}.{name.name}" for name in node.names if node.module and not node.level)


def breach(importer: str, module: str) -> bool:
    """Whether an import by the room, folder or module `importer` ("apps", "hardware/machine") goes to its right."""
    top, *inside = module.split(".")
    if not top or top in ROOMS:
        return True  # a relative import hides where it goes; a room outside `sojourn` is another project's in a wheel
    room, *part = inside if top == "sojourn" and inside else [""]
    if importer == "hardware/machine":
        return room in ROOMS and inside[:2] != importer.split("/")
    if importer.startswith("harness/") and room == "harness" and part:
        return INSIDE.index(part[0]) > INSIDE.index(importer.split("/")[1])
    return room in ROOMS and ROOMS.index(room) > ROOMS.index(importer.split("/")[0])


@pytest.mark.parametrize("importer", [*ROOMS, "hardware/machine"])
def test_a_room_imports_only_itself_and_what_is_to_its_left(importer: str) -> None:
    folder = ROOT / importer
    breaches = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sorted(folder.rglob("*.py"))
        for module in imported(path.read_text())
        if breach(importer, module)
    ]
    assert breaches == []


def modules() -> dict[str, Path]:
    """Every module of the product by its path without suffix: that of the folder for a package."""
    paths = (path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py")))
    return {str(path.relative_to(ROOT).with_suffix("")).removesuffix("/__init__"): path for path in paths}


def imports(path: Path) -> set[str]:
    """What a module imports, in the form of `modules`."""
    return {name.removeprefix("sojourn.").replace(".", "/") for name in imported(path.read_text())}


def circle(imports: Mapping[str, set[str]]) -> list[str]:
    """The modules of a circle among imports, from one to itself; none without a circle."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as found:
        return list(found.args[1])
    return []


def test_rooms_in_harness_import_only_what_is_to_their_left() -> None:
    breaches = {
        f"{importer} imports {module}"
        for importer, path in modules().items()
        if importer.startswith("harness/")
        for module in imported(path.read_text())
        if breach(importer, module)
    }
    assert breaches == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = modules()
    assert circle({name: imports(path) & known.keys() - {name} for name, path in known.items()}) == []


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}}) == []
    assert set(circle({"a": {"b"}, "b": {"c"}, "c": {"a"}})) == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("importer", "source", "wrong"),
    [
        ("apps", "from sojourn.harness.store.runs import RunStore", True),
        ("apps", "def later():\n    import sojourn.harness.store.runs", True),
        ("apps", "if TYPE_CHECKING:\n    from sojourn.harness import store", True),
        ("apps", "from sojourn.captures.screen import Screen\nimport polars", False),
        ("traffic", "from sojourn.bottleneck import units", True),
        ("hardware", "from . import machine", True),
        ("hardware/machine", "from sojourn.hardware.node import node_command", True),
        ("hardware/machine", "from sojourn.hardware.machine.place import Place", False),
        ("harness", "import sojourn.scoring.score, sojourn.apps", False),
        ("harness", "import sojourn.apps, scoring.score", True),
        ("harness/engine/job", "from sojourn.harness.matrix import cell", True),
        ("harness/engine/job", "from sojourn.harness.lab.contract import Lab", False),
        ("harness/report/svg", "from sojourn.harness.matrix.matrix import Matrix", True),
        ("harness/matrix/pages/flent", "from sojourn.harness.report.svg import chart", False),
    ],
)
def test_a_breach_is_seen_wherever_the_import_stands(importer: str, source: str, wrong: bool) -> None:
    assert any(breach(importer, module) for module in imported(source)) == wrong


def test_a_text_names_a_module_as_it_is_imported() -> None:
    """Commands, look-ups by name and docstrings: outside a checkout `python -m harness.cli` is nobody's."""
    module = re.compile(rf"(?<![\w./-])(?:{'|'.join(ROOMS)})\.\w+")
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in (*ROOMS, "tests", "benchmarks")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for name in module.findall(node.value)
        if (place := ROOT / name.replace(".", "/")).is_dir() or place.with_suffix(".py").is_file()
    ]
    assert [it for it in wrong if "test_layers" not in it] == []


def test_no_two_types_have_one_name() -> None:
    names: dict[str, list[Path]] = {}
    for path in (path for room in ROOMS for path in (ROOT / room).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                names.setdefault(node.name, []).append(path.relative_to(ROOT))
    assert {name: paths for name, paths in names.items() if len(paths) > 1} == {}
