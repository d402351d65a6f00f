# SPDX-License-Identifier: Apache-2.0
"""The tables of README and docs are made by this code, and a change of what decides one makes it out of date."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.report import stamps
from sojourn.harness.report.experiments import find_runs
from sojourn.harness.report.stamps import (
    PARTS,
    PaperError,
    PaperTable,
    Stamp,
    digests,
    out_of_date,
    paper_tables,
)
from sojourn.harness.store.manifest import GitState
from sojourn.scoring.schema import scores
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
    monkeypatch.setattr(stamps, "OURS", OURS | {"cubic": cubic})
    assert out_of_date([TABLE], checkout) == {"harm-here": ["senders"]}


def test_a_service_or_a_scenario_that_is_another_makes_a_table_out_of_date(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (scenario := checkout / "home.toml").write_text('qdisc = "cake"\n')
    table = TABLE.model_copy(update={"commands": (*TABLE.commands, "harm --scenario=home.toml")})
    (checkout / "page.md").write_text(Stamp("1234abcd", "kernel", digests(table, checkout)).markdown(table, 6))
    assert out_of_date([table], checkout) == {}
    scenario.write_text('qdisc = "pie"\n')
    assert out_of_date([table], checkout) == {"harm-here": ["files"]}
    scenario.write_text('qdisc = "cake"\n')
    monkeypatch.setattr(stamps.SERVICES["o2tv"], "defaults", {"rate": "1gbit"})
    assert out_of_date([table], checkout) == {}
    monkeypatch.setattr(stamps.SERVICES["youtube"], "defaults", {"rate": "1gbit"})
    assert out_of_date([table], checkout) == {"harm-here": ["services"]}


@pytest.mark.parametrize(
    "way", ["harm --service=sledovanitv,o2tv", "map service=o2tv rtt=10ms", "harm --scenario=home.toml"]
)
def test_only_the_services_of_a_table_decide_it(checkout: Path, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    (checkout / "home.toml").write_text('service = ["youtube", "o2tv"]\n')
    table = TABLE.model_copy(update={"commands": (way,)})
    (checkout / "page.md").write_text(Stamp("1234abcd", "kernel", digests(table, checkout)).markdown(table, 6))
    monkeypatch.setattr(stamps.SERVICES["call"], "defaults", {"rate": "1gbit"})
    assert out_of_date([table], checkout) == {}
    monkeypatch.setattr(stamps.SERVICES["o2tv"], "defaults", {"rate": "1gbit"})
    assert out_of_date([table], checkout) == {"harm-here": ["services"]}


def test_chosen_players_decide_the_tables_that_name_them(checkout: Path) -> None:
    for command, parts in (("map player=all", ["players"]), ("harm --player=shaka", ["players"]), ("harm", [])):
        table = TABLE.model_copy(update={"commands": (command,)})
        assert [part for part in table.decided_by if part not in TABLE.decided_by] == parts
        assert ("players" in digests(table, checkout)) == bool(parts)


def test_a_scorer_that_changes_the_scores_of_one_service_decides_its_tables(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = "map --service=room rtt=10ms,20ms", "map --service=call,room", "map --service=call", "harm"
    tables = [TABLE.model_copy(update={"commands": (command,)}) for command in commands]
    before = [digests(table, checkout)["scores"] for table in tables]
    monkeypatch.setitem(scores.LAST_CHANGES, "room", "2.1000")
    after = [digests(table, checkout)["scores"] for table in tables]
    assert after == ["2.1000", "2.1000", *before[2:]]


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
    ("command", "file", "others"),
    [
        ("harm --kernel-source=hardware/kernel/bbr3", "hardware/kernel/bbr3/tcp_bbr3.c", "hardware/kernel/tcp_mine.c"),
        (
            "harm --contenders=cubic,program:quic-bbr3",
            "traffic/rust/ledbat_control.rs",
            "traffic/rust/scream_control.rs",
        ),
        ("harm --origin-protocol=h3", "traffic/rust/origin/streams.rs", "traffic/rust/quic.rs"),
    ],
)
def test_kernel_files_and_programs_that_a_command_names_decide_its_table(
    checkout: Path, command: str, file: str, others: str
) -> None:
    for folder in ("hardware/kernel", "traffic/rust"):
        shutil.copytree(CHECKOUT / folder, checkout / folder, dirs_exist_ok=True)
    (readme := (checkout / file).with_name("README.md")).write_text("words\n")
    table = TABLE.model_copy(update={"commands": (command,)})
    (checkout / "page.md").write_text(Stamp("1234abcd", "kernel", digests(table, checkout)).markdown(table, 6))
    readme.write_text("others\n")
    assert out_of_date([table], checkout) == {}
    with (checkout / others).open("a") as changed:
        changed.write("\n")
    assert "files" not in out_of_date([table], checkout).get(table.name, [])
    with (checkout / file).open("a") as changed:
        changed.write("\n")
    assert "files" in out_of_date([table], checkout)[table.name]


def test_a_table_without_a_stamp_was_never_made(checkout: Path) -> None:
    (checkout / "page.md").write_text("no table")
    assert out_of_date([TABLE], checkout) == {"harm-here": ["never made"]}


def test_the_parts_name_files() -> None:
    for part, patterns in PARTS.items():
        assert all(any(CHECKOUT.glob(pattern)) for pattern in patterns), part


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


def test_runs_of_two_versions_have_no_stamp(series: Series) -> None:
    runs: list[Any] = find_runs([series([1, 2])[0].parent])
    for run in runs:
        run.manifest.git = GitState(commit="a" * 40, dirty=False)
    assert Stamp.of_runs(runs, {}).commit == "a" * 8 and "processor" not in Stamp.of_runs(runs, {}).markdown(TABLE, 2)
    for run, flags in zip(runs, ("avx2", "avx2 avx512f"), strict=True):
        run.manifest.versions = {"guest processor": "the host's", "processor": "AMD EPYC", "processor flags": flags}
    assert Stamp.of_runs(runs, {}).markdown(TABLE, 2).count(", processor AMD EPYC with flags ") == 2
    for run in runs:
        run.manifest.versions = {"guest processor": "x86-64-v3", "processor": "another for each run"}
    assert ", processor x86-64-v3, scores" in Stamp.of_runs(runs, {}).markdown(TABLE, 2)
    runs[1].manifest.git = GitState(commit="f" * 40, dirty=False)
    with refusal(PaperError, "failed", "2 versions"):
        Stamp.of_runs(runs, {})
    runs[1].manifest.git = GitState(commit="a" * 40, dirty=True)
    with refusal(PaperError, "failed", "not committed"):
        Stamp.of_runs(runs, {})


def test_each_test_of_a_table_has_one_guest(series: Series) -> None:
    """A matrix with calls runs in another guest than one without."""
    runs: list[Any] = find_runs([series([1, 2])[0].parent])
    for run, guest in zip(runs, "ab", strict=True):
        run.manifest.git = GitState(commit="a" * 40, dirty=False)
        run.manifest.versions |= {"guest": guest * 24}
    with refusal(PaperError, "failed", "2 versions"):
        Stamp.of_runs(runs, {})
    runs[1].manifest.test = "l4s-media-draft"
    assert ", guests aaaaaaaa and bbbbbbbb, scores" in Stamp.of_runs(runs, {}).markdown(TABLE, 2)


def test_a_file_that_is_no_code_does_not_change_what_a_commit_makes(series: Series) -> None:
    runs: list[Any] = find_runs([series([1, 2])[0].parent])
    for run, dirty in zip(runs, (False, True), strict=True):
        run.manifest.git = GitState(commit="a" * 40, dirty=dirty)
        run.manifest.versions |= {"kernel source": "linux 7.2", "kernel build": "1" * 24, "sources": "5" * 24}
    assert Stamp.of_runs(runs, {}).commit == "a" * 8
    for digest in ("6" * 24, None):
        runs[1].manifest.versions["sources"] = digest
        if digest is None:
            del runs[1].manifest.versions["sources"]
        with refusal(PaperError, "failed", "not committed"):
            Stamp.of_runs(runs, {})
    with refusal(PaperError, "failed", "not committed"):
        Stamp.of_runs(runs[1:], {})


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
