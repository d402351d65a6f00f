# SPDX-License-Identifier: Apache-2.0
"""The runs of a folder as one long table: every figure of the valid ones, and the name of every other."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest

import sojourn
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.options.model import OPTIONS
from sojourn.harness.report.data import RunData
from sojourn.harness.store.manifest import MANIFEST, read_manifest, reseal, write_manifest
from sojourn.scoring.long_table import COLUMNS
from sojourn.scoring.statistics.numbers import nearest_rank
from tests.refusals import refusal
from tests.unit.harness.conftest import Series


def loaded(folder: Path, void: bool = False) -> pl.DataFrame:
    """The table of a folder of which every run is sound."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = sojourn.load(folder, void=void)
    assert isinstance(table, pl.DataFrame)
    return table


def test_runs_that_repeat_each_other_differ_in_no_option(series: Series) -> None:
    paths = series([1, 2, 3])
    table = loaded(paths[0].parent)
    assert table.columns == list(COLUMNS) and table["experiment"].n_unique() == 1
    stalled = table.filter(phase="prague", metric="stall_s").sort("seed")
    assert stalled.select("run", "seed", "contender", "value", "unit").rows() == [
        (path.name, seed, "prague", seed, "s") for seed, path in enumerate(paths, 1)
    ]
    for path in paths:
        of_run = sojourn.load(path)
        assert isinstance(of_run, RunData)
        assert table.filter(run=path.name).drop("experiment").equals(of_run.figures.drop("experiment"))


def test_options_that_differ_are_columns_of_their_own_type(series: Series) -> None:
    series([1], rate_down_bps=5_000_000, rate_steps=[])
    series([2], rate_down_bps=10_000_000, rate_steps=[[5, 1_000_000]], loss_percent=1)
    (folder,) = {path.parent for path in series([3], rate_down_bps=None, qdisc="dualpi2", loss_percent=0.5)}
    table = loaded(folder)
    options = [name for name in table.columns if name not in COLUMNS]
    assert set(options) == {"rate_down_bps", "rate_steps", "loss_percent", "qdisc_down"}
    by_run = table.filter(phase="prague", metric="stall_s").sort("value").select(sorted(options))
    assert by_run.rows() == [
        (None, "fq_codel flows 1", 5_000_000, "[]"),
        (1.0, "fq_codel flows 1", 10_000_000, "[[5, 1000000]]"),
        (0.5, "dualpi2", None, None),
    ]
    assert table["experiment"].n_unique() == 3


def test_no_option_has_the_name_of_a_column() -> None:
    assert not {option.field for option in OPTIONS} & set(COLUMNS) - {"seed"}


def test_a_copy_of_a_run_counts_once(series: Series) -> None:
    (path,) = series([1])
    shutil.copytree(path, path.with_name(path.name + "-again"))
    assert loaded(path.parent)["run"].n_unique() == 1


def test_the_first_example_of_the_page_gives_the_percentiles_of_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearest ranks: the 99th of 100, and infinite where too many are lost."""
    page = (CHECKOUT / "docs" / "data.md").read_text()
    example = page.partition("```python\n")[2].partition("```")[0]
    given = {0: [*range(100, 0, -1)], 1: [*range(1, 96), *[None] * 5]}
    rows = [(100.0 + n / 10, "bottleneck", ecn, rtt) for ecn, all_ in given.items() for n, rtt in enumerate(all_)]
    run = SimpleNamespace(
        phases=pl.DataFrame({"phase": ["solo"], "contender": [None], "start": [100.0], "end": [120.0]}),
        probes=pl.DataFrame(
            rows, {"t": pl.Float64, "path": pl.String, "ecn": pl.UInt8, "rtt_ms": pl.Float64}, orient="row"
        ),
    )
    monkeypatch.setattr(sojourn, "load", lambda _: run)
    shown = list[pl.DataFrame]()
    exec(example, {"print": shown.append})
    for phase, ecn, p50, p99 in shown[0].rows():
        rtts = [rtt for rtt in given[ecn] if rtt is not None]
        assert phase == "solo"
        assert [p50, p99] == [nearest_rank(rtts, percent, given[ecn].count(None)) for percent in (50, 99)]
    assert shown[0].height == 2


def truncated(run: Path) -> None:
    (run / "scores.json").write_bytes((run / "scores.json").read_bytes()[:100])
    reseal(run, "scores.json")


def altered(run: Path) -> None:
    (run / "scores.json").write_text((run / "scores.json").read_text().replace("720", "721"))


def without_scores(run: Path) -> None:
    (run / "scores.json").unlink()


def without_manifest(run: Path) -> None:
    (run / MANIFEST).unlink()


def bad_manifest(run: Path) -> None:
    (run / MANIFEST).write_text("{")


def killed(run: Path) -> None:
    write_manifest(run, read_manifest(run).model_copy(update={"status": "interrupted", "finished": None}))
    run.rename(run.with_name(run.name + ".partial"))


def odd_options(run: Path) -> None:
    (run / "options.json").write_text(json.dumps({"service": "o2tv", "phases": [{}]}))
    reseal(run, "options.json")


def pipe(run: Path) -> None:
    (run / "scores.json").unlink()
    (run / "scores.json").symlink_to("/dev/zero")


DAMAGES = [truncated, altered, without_scores, without_manifest, bad_manifest, killed, odd_options, pipe]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_run_is_named_and_hides_no_other(series: Series, damage: Callable[[Path], None]) -> None:
    sound, odd = series([1, 2])
    damage(odd)
    with pytest.warns(UserWarning, match=odd.name) as seen:
        table = sojourn.load(sound.parent)
    assert len(seen) == 1 and seen[0].filename == __file__, "a warning per run, at the line of the user's program"
    assert table["run"].unique().to_list() == [sound.name] and table.height


def test_an_invalid_run_is_named_or_marked(series: Series) -> None:
    void, sound = series([1], void=[2])
    with pytest.warns(UserWarning, match=f"{void.name}: skipped: invalid: jitter: 9 ms"):
        table = sojourn.load(void.parent)
    assert set(table["run"]) == {sound.name} and "valid" not in table.columns
    both = loaded(void.parent, void=True)
    assert dict(both.select("run", "valid").unique().rows()) == {sound.name: True, void.name: False}
    assert not both.filter(pl.col("metric").str.starts_with("harm."), ~pl.col("valid")).height


def test_a_folder_without_any_valid_run_has_an_empty_table(series: Series) -> None:
    (void,) = series([], void=[2])
    with pytest.warns(UserWarning, match=void.name):
        table = sojourn.load(void.parent)
    assert not table.height and table.columns == list(COLUMNS)


def test_a_folder_without_runs_is_no_run(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with refusal(RuntimeError, "not-a-run", str(place)):
            sojourn.load(place)


def test_a_name_in_a_run_does_not_move_the_terminal(series: Series) -> None:
    (path,) = series([1])
    killed(path)
    partial = path.with_name(path.name + ".partial")
    partial.rename(partial.with_name("a\x1b[2Kb.partial"))
    with pytest.warns(UserWarning) as seen:
        sojourn.load(path.parent)
    assert "\x1b" not in str(seen[0].message)
