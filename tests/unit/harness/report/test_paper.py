# SPDX-License-Identifier: Apache-2.0
"""The tables of README and docs: they are made by this code, and a change of the code makes them out of date."""

from __future__ import annotations

import csv
import hashlib
import shutil
from collections.abc import Callable
from dataclasses import replace
from math import exp
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.report import paper
from sojourn.harness.report.experiments import experiments, find_runs
from sojourn.harness.report.markdown import MarksError
from sojourn.harness.report.paper import (
    PARTS,
    PaperError,
    PaperTable,
    Stamp,
    digests,
    harm_table,
    map_table,
    out_of_date,
    overview_table,
    paper_tables,
    rigs_table,
    shares_table,
    stamped,
)
from sojourn.harness.store.loaded import CellRun
from sojourn.harness.store.manifest import GitState
from sojourn.traffic.contender import OURS
from tests.refusals import refusal

Series = Callable[..., list[Path]]
TABLE = PaperTable(name="harm-here", page="page.md", commands=("harm --repeat=6",), table="harm")


def test_every_table_is_made_by_this_code() -> None:
    assert out_of_date(table for table in paper_tables() if not table.slow) == {}, "run `sojourn paper`"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The files that decide a table, and a page with a table of them."""
    for pattern in ("tests/test_*.py", *(pattern for patterns in PARTS.values() for pattern in patterns)):
        for file in CHECKOUT.glob(pattern):
            if file.is_file():
                (copy := tmp_path / file.relative_to(CHECKOUT)).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)
    stamp = Stamp("1234abcd", "kernel 7.2.13 build 12345678", digests(TABLE, tmp_path))
    (tmp_path / "page.md").write_text(stamp.markdown(TABLE, 6))
    return tmp_path


@pytest.mark.parametrize(
    ("file", "part"),
    [
        ("hardware/kernel/tcp_prague.c", "kernel"),
        ("hardware/kernel/patches/series", "kernel"),
        ("bottleneck/rig.py", "path"),
        ("apps/standins/youtube/watch.js", "player"),
        ("captures/frames.js", "player"),
        ("traffic/iperf3.py", "senders"),
        ("harness/options/timeline.py", "timeline"),
        ("scoring/statistics/harm.py", "statistics"),
    ],
)
def test_a_change_of_what_decides_a_table_makes_it_out_of_date(checkout: Path, file: str, part: str) -> None:
    assert out_of_date([TABLE], checkout) == {}
    with (checkout / file).open("a") as changed:
        changed.write("\n")
    assert out_of_date([TABLE], checkout) == {"harm-here": [part]}


def test_a_contender_that_is_another_makes_a_table_out_of_date(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubic = replace(OURS["cubic"], tcp_ecn=OURS["prague"].tcp_ecn)
    monkeypatch.setattr(paper, "OURS", OURS | {"cubic": cubic})
    assert out_of_date([TABLE], checkout) == {"harm-here": ["senders"]}


def test_a_service_or_a_scenario_that_is_another_makes_a_table_out_of_date(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scenario := checkout / "home.toml").write_text('qdisc = "cake"\n')
    table = TABLE.model_copy(update={"commands": (*TABLE.commands, "harm --scenario=home.toml")})
    (checkout / "page.md").write_text(Stamp("1234abcd", "kernel", digests(table, checkout)).markdown(table, 6))
    assert out_of_date([table], checkout) == {}
    scenario.write_text('qdisc = "pie"\n')
    assert out_of_date([table], checkout) == {"harm-here": ["command"]}
    scenario.write_text('qdisc = "cake"\n')
    monkeypatch.setattr(paper.SERVICES["o2tv"], "defaults", {"rate": "1gbit"})
    assert out_of_date([table], checkout) == {}
    monkeypatch.setattr(paper.SERVICES["youtube"], "defaults", {"rate": "1gbit"})
    assert out_of_date([table], checkout) == {"harm-here": ["services"]}


@pytest.mark.parametrize(
    "way", ["harm --service=sledovanitv,o2tv", "map service=o2tv rtt=10ms", "harm --scenario=home.toml"]
)
def test_only_the_services_of_a_table_decide_it(checkout: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    (checkout / "home.toml").write_text('service = ["youtube", "o2tv"]\n')
    table = TABLE.model_copy(update={"commands": (way,)})
    (checkout / "page.md").write_text(Stamp("1234abcd", "kernel", digests(table, checkout)).markdown(table, 6))
    monkeypatch.setattr(paper.SERVICES["call"], "defaults", {"rate": "1gbit"})
    assert out_of_date([table], checkout) == {}
    monkeypatch.setattr(paper.SERVICES["o2tv"], "defaults", {"rate": "1gbit"})
    assert out_of_date([table], checkout) == {"harm-here": ["services"]}


def test_chosen_players_decide_the_tables_that_name_them(checkout: Path) -> None:
    for command, parts in (("map player=all", ["players"]), ("harm --player=shaka", ["players"]), ("harm", [])):
        table = TABLE.model_copy(update={"commands": (command,)})
        assert [part for part in table.decided_by if part not in TABLE.decided_by] == parts
        assert ("players" in digests(table, checkout)) == bool(parts)


def test_a_room_decides_the_tables_that_name_it_and_no_table_of_calls(checkout: Path) -> None:
    room = TABLE.model_copy(update={"commands": ("map rtt=10ms,20ms --service=room",), "table": "calls"})
    call = TABLE.model_copy(update={"commands": ("map rtt=10ms,20ms --service=call",), "table": "calls"})
    before = [digests(table, checkout) for table in (room, call)]
    for file, changes in (("apps/standins/room/room.js", [True, False]), ("captures/sound.js", [True, True])):
        with (checkout / file).open("a") as changed:
            changed.write("\n")
        after = [digests(table, checkout) for table in (room, call)]
        assert [one != other for one, other in zip(before, after, strict=True)] == changes, file
        before = after


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("harm --kernel-source=kernels/mine", "kernels/mine/tcp_mine.c"),
        ("harm --contenders=cubic,program:quic-bbr3", "traffic/rust/noq/main.rs"),
        ("harm --origin-protocol=h3", "traffic/rust/origin/main.rs"),
    ],
)
def test_kernel_files_and_programs_that_a_command_names_decide_its_table(
    checkout: Path, command: str, file: str
) -> None:
    (checkout / file).parent.mkdir(parents=True, exist_ok=True)
    (checkout / file).write_text("one\n")
    (readme := (checkout / file).with_name("README.md")).write_text("words\n")
    table = TABLE.model_copy(update={"commands": (command,)})
    (checkout / "page.md").write_text(Stamp("1234abcd", "kernel", digests(table, checkout)).markdown(table, 6))
    readme.write_text("others\n")
    assert out_of_date([table], checkout) == {}
    (other := checkout / "traffic/rust/quiche/main.rs").parent.mkdir(parents=True)
    other.write_text("a program that it does not run\n")
    assert out_of_date([table], checkout) == {}
    (checkout / file).write_text("two\n")
    assert out_of_date([table], checkout) == {"harm-here": ["command"]}


def test_a_table_without_a_stamp_was_never_made(checkout: Path) -> None:
    (checkout / "page.md").write_text("no table")
    assert out_of_date([TABLE], checkout) == {"harm-here": ["never made"]}


def test_the_parts_name_files() -> None:
    for part, patterns in PARTS.items():
        assert all(any(CHECKOUT.glob(pattern)) for pattern in patterns), part


def test_the_table_of_an_experiment_has_harm_bar_and_difference(series: Series) -> None:
    folder = series([1, 2, 3, 4, 5])[0].parent
    (one,) = experiments(find_runs([folder]))
    lines = harm_table(one).splitlines()
    assert lines[0] == "|  | alone | with cubic, the bar | with prague |"
    # By hand: 720 lines alone, 36 (10 - stalled) with Prague, so harm 0.5 + stalled / 20.
    assert lines[2] == "| harm | – | 0 | 0.65 (0.56 to 0.74) |"
    assert lines[-1].startswith("Difference in harm: prague − cubic: 0.65 (")


def test_the_table_of_a_map_has_a_plane_per_queue_and_contender(series: Series) -> None:
    for rtt_us in (10_000, 40_000):
        for rate in (5_000_000, 10_000_000):
            folder = series([rtt_us / 10_000], rtt_us=rtt_us, rate_down_bps=rate, rate_up_bps=rate)[0].parent
    text = map_table(experiments(find_runs([folder])))
    assert "**fq_codel flows 1, with prague**" in text
    assert "| rate ↓ rtt → | 10ms | 40ms |" in text and "| 5mbit | 0.55 | 0.70 |" in text


def test_the_table_of_a_map_without_a_sweep_has_a_row_per_queue(series: Series) -> None:
    series([1])
    folder = series([3], qdisc="dualpi2")[0].parent
    assert map_table(experiments(find_runs([folder]))).splitlines() == [
        "| queue (o2tv, 10mbit, 20ms) | cubic | prague |",
        "| --- | --- | --- |",
        "| dualpi2 | 0.00 | 0.65 |",
        "| fq_codel flows 1 | 0.00 | 0.55 |",
    ]


def test_the_overview_has_a_row_per_queue_and_contender_the_worst_first(series: Series) -> None:
    series([1, 2, 3, 4, 5])
    folder = series([6, 7, 8, 9, 9], qdisc="dualpi2")[0].parent
    lines = overview_table(experiments(find_runs([folder]))).splitlines()
    assert [line.split(" | ")[:2] for line in lines[2:]] == [
        ["| `dualpi2`", "prague"],
        ["| `fq_codel flows 1`", "prague"],
        ["| `fq_codel flows 1`", "cubic"],
        ["| `dualpi2`", "cubic"],
    ]
    # By hand, as in the table of the experiment.
    assert "| 0.65 (0.56 to 0.74) |" in lines[3] and lines[3].count("|") == lines[0].count("|")


@pytest.mark.parametrize(
    ("form", "given", "name"),
    [
        ("picture", {}, "picture: missing"),
        ("film", {"picture": "a.gif"}, "part: missing"),
        ("map", {"picture": "a.png"}, "picture: of no use"),
        ("picture", {"picture": "a.png", "part": (0, 1)}, "part: of no use"),
    ],
)
def test_a_picture_and_a_part_are_of_the_forms_that_show_them(form: str, given: dict[str, Any], name: str) -> None:
    with pytest.raises(ValidationError, match=name):
        PaperTable.model_validate({"name": "it", "page": "p.md", "commands": ["harm"], "table": form} | given)


def cell_run(rate_mbps: int, rtt_us: int, seed: int, prague: float, *, drawn: bool) -> CellRun:
    flows = [{"contender": "prague", "rtt_us": rtt_us}]
    hop = {"down": {"rate_bps": rate_mbps * 10**6, "qdisc": "dualpi2"}}
    manifest: Any = SimpleNamespace(drawn={"RTT": "1 %"} if drawn else {}, seed=seed)
    scores = {"flows": [{"d_ss_mbps": prague}, {"d_ss_mbps": 1.0}]}
    return CellRun(Path("run"), {"cell": {"flows": flows, "hops": [hop]}}, manifest, scores)


def test_the_table_of_rigs_has_a_row_per_rate_and_takes_the_rigs_in_order_of_their_seeds() -> None:
    runs = []
    for rate in (20, 10):
        for rtt in (19_000, 21_000):
            runs += [cell_run(rate, rtt, seed, exp(rtt / 20_000 - 1 + seed / 1000), drawn=False) for seed in (1, 2)]
        # A drift over the seeds: only series of consecutive ones leave the mean out.
        runs += [cell_run(rate, 20_000, seed, exp(seed), drawn=True) for seed in reversed(range(1, 41))]
    lines = rigs_table(runs).splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| 10 Mbit/s", "| 20 Mbit/s"]
    _, rtts, within, rigs, exact, *covers = lines[2].strip("| ").split(" | ")
    assert (rtts, within, rigs) == ("0.071", "0.001", "11.690")
    assert exact == "0.00" and 0 < float(covers[0]) < 0.4 and covers[-1] == "0.00"
    with refusal(PaperError, "missing", "10 Mbit/s", "8 rigs"):
        rigs_table([run for run in runs if not run.manifest.drawn])


def test_the_table_of_shares_has_rates_by_queue_and_the_ratio_with_its_interval() -> None:
    runs = [cell_run(rate, 20_000, seed, rate * 1.1**seed, drawn=True) for rate in (20, 5) for seed in range(1, 7)]
    for run in runs[6:]:
        run.options["cell"]["hops"][0]["down"]["qdisc"] = "dualpi2 min_qlen_step 1"
    head, _, slow, fast = shares_table(runs).splitlines()
    assert head == "| rate | `dualpi2` | `dualpi2 min_qlen_step 1` |"
    # By hand: the mean of 1.1, …, 1.1^6 is 1.414, their geometric mean 1.1^3.5 = 1.396.
    assert slow.startswith("| 5 Mbit/s | – | 7.07 : 1.00<br>× 6.98 (")
    assert fast.startswith("| 20 Mbit/s | 28.29 : 1.00<br>× 27.92 (") and fast.endswith("| – |")
    low, high = (float(it) for it in fast.split("(")[1].split(")")[0].split(" to "))
    assert 20 < low < 27.92 < high < 36


def test_a_flow_that_got_nothing_has_a_rate_and_no_share() -> None:
    runs = [cell_run(20, 20_000, seed, 0, drawn=True) for seed in (1, 2)]
    assert shares_table(runs).splitlines()[-1] == "| 20 Mbit/s | 0.00 : 1.00 |"
    with refusal(PaperError, "invalid-run", "no ratio"):
        rigs_table(runs)


@pytest.mark.parametrize(
    ("form", "command", "ends", "again"),
    [
        ("map", "map rtt=10ms,20ms", [1], None),
        ("overview", "harm --scenario=access-line", [1], None),
        ("media", "matrix l4s-media", [2], None),
        ("calls", "map qdisc=pfifo,dualpi2 --service=room", [1], None),
        ("dips", "map rate-up=8mbit --service=room", [1], None),
        ("published", "matrix s1", [2], None),
        ("film", "harm", [0, 1], "interrupted"),
        ("harm", "harm --repeat=6", [1], "interrupted"),
    ],
)
def test_a_series_that_was_interrupted_is_continued_or_refused(
    form: Any, command: str, ends: list[int], again: str | None, series: Series, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    further = {"picture": "a.gif", "part": (0, 1)} if form == "film" else {}
    table = PaperTable(name="one", page="p.md", commands=(command,) * len(ends), table=form, **further)
    folder, left = series([1])[0].parent, list(ends)
    shutil.rmtree(tmp_path / "made", ignore_errors=True)

    def run(words: list[str]) -> int:
        assert words[3:] == [*command.split(), f"--results={tmp_path / 'made'}"]
        shutil.copytree(folder, tmp_path / "made", dirs_exist_ok=True)
        return left.pop(0)

    monkeypatch.setattr(paper, "_ended", run)
    with refusal(PaperError, "failed", command, f"ended with {ends[-1]}"):
        paper._runs(table, tmp_path / "made")
    left = [0] * len(ends)
    if again:
        with refusal(PaperError, "conflict", str(tmp_path / "made"), again):
            paper._runs(table, tmp_path / "made")
    else:
        paper._runs(table, tmp_path / "made")
        assert not left
        paper._runs(table, tmp_path / "made")  # done: no command


def test_a_matrix_that_misses_its_expectations_has_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = PaperTable(name="one", page="p.md", commands=("matrix s1",), table="published")
    (tmp_path / "made").mkdir()
    monkeypatch.setattr(paper, "_ended", lambda words: 1)
    assert paper._runs(table, tmp_path / "made") == []


def test_a_film_of_two_queues_has_both(series: Series) -> None:
    runs = find_runs([series([1])[0].parent])
    film = PaperTable(name="one", page="p.md", commands=("harm", "harm"), table="film", picture="a.gif", part=(0, 1))
    with refusal(PaperError, "missing", "1 of 2 commands"):
        stamped(film, runs, {})


def test_runs_of_two_versions_have_no_stamp(series: Series) -> None:
    runs: list[Any] = find_runs([series([1, 2])[0].parent])
    for run in runs:
        run.manifest.git = GitState(commit="a" * 40, dirty=False)
    assert Stamp.of_runs(runs, {}).commit == "a" * 8
    runs[1].manifest.git = GitState(commit="f" * 40, dirty=False)
    with refusal(PaperError, "failed", "2 versions"):
        Stamp.of_runs(runs, {})
    runs[1].manifest.git = GitState(commit="a" * 40, dirty=True)
    with refusal(PaperError, "failed", "not committed"):
        Stamp.of_runs(runs, {})


def test_too_few_valid_runs_make_no_table(series: Series) -> None:
    runs: list[Any] = find_runs([series([1, 2, 3, 4, 5], void=[9])[0].parent])
    with refusal(PaperError, "failed", "fewer than 6 valid runs"):
        stamped(TABLE, runs, {})


def test_another_command_makes_a_table_out_of_date(checkout: Path) -> None:
    other = TABLE.model_copy(update={"commands": ("harm --repeat=10",)})
    assert out_of_date([other], checkout) == {"harm-here": ["command"]}


def test_each_form_has_the_parts_that_decide_it(checkout: Path) -> None:
    published = PaperTable(name="tables", page="page.md", commands=("matrix s1",), table="published")
    before = digests(published, checkout)
    with (checkout / "apps/standins/youtube/watch.js").open("a") as changed:
        changed.write("\n")
    assert digests(published, checkout) == before
    with (checkout / "tests/test_rate_step.py").open("a") as changed:
        changed.write("\n")
    assert digests(published, checkout) == before, "the matrix s2 decides no table of s1"
    with (checkout / "tests/test_rtt_fairness.py").open("a") as changed:
        changed.write("\n")
    assert {name for name, it in digests(published, checkout).items() if it != before[name]} == {"cells"}
    with refusal(PaperError, "unknown-value", "tables", "s0"):
        digests(published.model_copy(update={"commands": ("matrix s0",)}), checkout)


def test_a_picture_of_a_run_has_only_its_stamp_in_the_page(
    series: Series, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = series([1])
    table = PaperTable(name="one", page="p.md", commands=("harm",), table="picture", picture="one.png")
    (tmp_path / "p.md").write_text("\n".join(["![a picture](one.png)", *table.marks]))
    monkeypatch.setattr(paper, "CHECKOUT", tmp_path)
    monkeypatch.setattr(paper, "_runs", lambda table, folder: find_runs([run.parent]))
    monkeypatch.setattr(Stamp, "of_runs", lambda runs, parts: Stamp("1234abcd", "kernel", parts))
    figures = tmp_path / "docs/runs/one.csv"
    assert list(paper.renew([table], tmp_path, lambda *_: ())) == [tmp_path / "one.png", figures, tmp_path / "p.md"]
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "p.md").read_text()
    assert "*[1 run](docs/runs/one.csv); commit 1234abcd" in page and "|" not in page
    head, *rows = csv.reader(figures.read_text().splitlines())
    assert head[1:3] == ["scores", "seed"] and {row[5] for row in rows} == {"played_height", "harm.played_height"}
    digest = hashlib.sha256((run / "scores.json").read_bytes()).hexdigest()
    assert all(digest.startswith(row[1]) and row[2] == "1" for row in rows) and len(rows[0][1]) == 16


def test_a_page_without_marks_is_refused_before_any_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper, "CHECKOUT", tmp_path)
    monkeypatch.setattr(paper, "_runs", lambda table, folder: pytest.fail("runs were made"))
    (tmp_path / "page.md").write_text("no marks")
    table = PaperTable(name="one", page="page.md", commands=("harm",), table="harm")
    with refusal(MarksError, "missing", "page.md", "one"):
        list(paper.renew([table], tmp_path, lambda *_: ()))


def test_the_published_tables_have_a_folder_per_matrix(series: Callable[..., list[Path]], tmp_path: Path) -> None:
    for run, matrix in zip(series([1, 2]), ("s1", "s2"), strict=True):
        (folder := tmp_path / "tables" / matrix).mkdir(parents=True)
        run.rename(folder / run.name)
    (tmp_path / "tables" / "done").touch()
    table = PaperTable(name="tables", page="page.md", commands=("matrix s1", "matrix s2"), table="published")
    assert [run.path.parent.name for run in paper._runs(table, tmp_path / "tables")] == ["s1", "s2"]
