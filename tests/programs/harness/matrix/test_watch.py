# SPDX-License-Identifier: Apache-2.0
"""`sojourn matrix --watch`: what is run after a change, and against what it is compared, without the runs."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.hardware.images import own_tc
from sojourn.hardware.kernel_build.kernel_source import short_name
from sojourn.hardware.machine.cache import BuildError
from sojourn.harness.matrix import dumbbell, watch
from sojourn.harness.matrix.matrix import Matrix, MatrixError
from sojourn.harness.matrix.matrix_plan import MatrixPlan
from tests.refusals import refusal

Step = Callable[[MatrixPlan], object]
Watch = Callable[[list[Step]], list[MatrixPlan]]
EXAMPLE = Path(__file__).parents[4] / "docs/examples/kernel"


def plan(results: Path, source: Path | None) -> MatrixPlan:
    cell = Cell(name="c", hops=(dumbbell.bottleneck(10, "fq_codel"),), seconds=10, flows=dumbbell.flows(["cubic"], 20))
    return MatrixPlan(Matrix(name="m", title="m", cells=(cell,)), (cell,), (1,), results, kernel_source=source)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "mine"))


@pytest.fixture
def watched(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Watch the folder: each run does the next of these things, which change it or fail; the last stops the watch."""

    def run(during: list[Step]) -> list[MatrixPlan]:
        plans: list[MatrixPlan] = []

        def one(made: MatrixPlan) -> list[Any]:
            plans.append(made)
            assert made.folder.name == f"m-{short_name(folder)}-{own_tc.digest(folder)}"
            during[len(plans) - 1](made)
            return []

        monkeypatch.setattr(watch, "run_and_report", one)
        with pytest.raises(KeyboardInterrupt):
            watch.watch(plan(tmp_path / "results", folder))
        return plans

    return run


def change(path: Path, text: str) -> Step:
    return lambda _: path.write_text(path.read_text() + text)


def stop(_: MatrixPlan) -> None:
    raise KeyboardInterrupt


def test_every_version_is_compared_with_the_one_before(watched: Watch, folder: Path) -> None:
    header = folder / "step.h"
    first, second, third = watched([change(header, "/* 1 */\n"), change(header, "/* 2 */\n"), stop])
    assert (first.compare_with, second.compare_with, third.compare_with) == (None, first.folder, second.folder)
    assert all(made.brief for made in (first, second, third))
    assert len({first.folder, second.folder, third.folder}) == 3
    copies = {made.kernel_source.parents[1] for made in (first, second, third) if made.kernel_source}
    assert len(copies) == 1 and not copies.pop().exists()


def test_an_error_names_the_users_file_and_the_watch_goes_on(
    watched: Watch, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = folder / "sch_step.c"

    def fails(made: MatrixPlan) -> None:
        change(source, "/* repaired */\n")(made)
        raise BuildError(f"--kernel-source: {made.kernel_source}/sch_step.c:3:1: error: no ';'", code="invalid-value")

    first, second, third = watched([change(source, "oops"), fails, stop])
    assert second.compare_with == third.compare_with == first.folder
    said = capsys.readouterr().err
    assert f"sojourn: --kernel-source: {source}:3:1: error: no ';'\n" in said
    assert re.search(rf"s; waiting for a change in {folder} \(Ctrl-C ends\)\n", said)


def test_a_change_of_a_patch_runs_the_cells_with_it(watched: Watch, folder: Path) -> None:
    copied: list[list[str]] = []

    def look(made: MatrixPlan) -> None:
        assert made.kernel_source
        copied.append([path.name for path in made.kernel_source.glob("*.patch")])
        if len(copied) > 1:
            raise KeyboardInterrupt
        (folder / "0001-more.patch").write_text("diff\n")

    watched([look, look])
    assert copied == [[], ["0001-more.patch"]]


def test_a_change_of_another_file_runs_nothing(watched: Watch, folder: Path) -> None:
    def note(made: MatrixPlan) -> None:
        (folder / "notes.txt").write_text("not compiled")
        change(folder / "tcp_gentle.c", "/* compiled */\n")(made)

    assert len(watched([note, stop])) == 2


@pytest.mark.parametrize("source", [None, Path("/no/linux-7.3.tar.xz")])
def test_only_own_files_are_watched(source: Path | None, tmp_path: Path) -> None:
    with refusal(MatrixError, "missing", "--watch: add --kernel-source=FOLDER"):
        watch.watch(plan(tmp_path, source))


def test_what_tc_is_built_from_has_runs_of_its_own(watched: Watch, folder: Path) -> None:
    first, second = watched([change(folder / "q_step.c", "/* for tc */\n"), stop])
    assert second.folder != first.folder and second.compare_with == first.folder


def test_a_change_that_is_undone_is_compared_with_nothing(watched: Watch, folder: Path) -> None:
    source, text = folder / "sch_step.c", (folder / "sch_step.c").read_text()

    def undo(_: MatrixPlan) -> None:
        source.write_text(text)
        raise BuildError("oops", code="failed")

    first, _, third = watched([change(source, "oops"), undo, stop])
    assert third.folder == first.folder and third.compare_with is None
