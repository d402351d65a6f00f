# SPDX-License-Identifier: Apache-2.0
"""tc's objects of a user's own qdiscs, compiled."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sojourn.hardware.images.own_tc import ensure_tc
from sojourn.hardware.machine.cache import BuildError
from tests.refusals import refusal

EXAMPLE = Path(__file__).parents[4] / "docs/examples/kernel"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path / "cache"))
    objects = tmp_path / "root/usr/lib/x86_64-linux-gnu/tc"
    objects.mkdir(parents=True)
    (objects / "sojourn.so").touch()
    (objects / "q_deltic.so").symlink_to("sojourn.so")
    return tmp_path / "root"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "mine"))


def test_the_example_is_built_once_with_the_guests_objects(folder: Path, root: Path) -> None:
    made = ensure_tc(folder, root)
    assert sorted(path.name for path in (made / "objects").iterdir()) == ["q_deltic.so", "q_step.so", "sojourn.so"]
    (folder / "sch_step.c").write_text("the kernel's alone")
    assert ensure_tc(folder, root) == made
    (folder / "step.h").write_text((folder / "step.h").read_text() + "/* changed */\n")
    assert ensure_tc(folder, root) != made


def test_the_compilers_first_error_is_shown_with_file_and_line(folder: Path, root: Path) -> None:
    source = folder / "q_step.c"
    source.write_text(source.read_text().replace("__u32 value;", "__u32 valu;"))
    with refusal(BuildError, "invalid-value", f"{source}:", "error: ", "value"):
        ensure_tc(folder, root)


def test_a_structure_of_another_name_is_refused(folder: Path, root: Path) -> None:
    source = folder / "q_step.c"
    source.rename(folder / "q_other.c")
    with refusal(BuildError, "invalid-value", "q_other.c: defines no `other_qdisc_util`"):
        ensure_tc(folder, root)
