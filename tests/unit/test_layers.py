# SPDX-License-Identifier: Apache-2.0
"""The order of the rooms: each imports only itself and what stands to its left, all of it as part of `sojourn`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("hardware", "traffic", "bottleneck", "scoring", "captures", "apps", "harness")
"""From left to right, as CONTRIBUTING.md tells."""


def imported(source: str) -> Iterator[str]:
    """Every module that a source imports, wherever in it, as it is named there."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
            yield from (f"{node.module}.{name.name}" for name in node.names if node.module and not node.level)


def breach(importer: str, module: str) -> bool:
    """Whether an import by the room or folder `importer` ("apps", "hardware/machine") goes to its right."""
    top, *inside = module.split(".")
    if not top or top in ROOMS:
        return True  # a relative import hides where it goes; a room outside `sojourn` is another project's in a wheel
    room = inside[0] if top == "sojourn" and inside else ""
    if importer == "hardware/machine":
        return room in ROOMS and inside[:2] != importer.split("/")
    return room in ROOMS and ROOMS.index(room) > ROOMS.index(importer)


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
