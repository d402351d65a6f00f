# SPDX-License-Identifier: Apache-2.0
"""A night is told from its files: in the terminal, on a page for this machine only, and in the morning."""

from __future__ import annotations

import errno
import http.client
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sojourn.hardware.machine.errors import Code
from sojourn.harness.cli import app
from sojourn.harness.soak import loop, run_plan, serve
from sojourn.harness.soak.loop import SoakExit
from sojourn.harness.soak.serve import Address, AddressError, StatusPage, address
from sojourn.harness.soak.state import Batch, BatchDirectory, batches, held
from sojourn.harness.soak.status import memory, print_status, status
from sojourn.harness.soak.summary import COMPARISON, JUNIT, write_summary
from tests.programs.harness.soak.soaks import CHILD, HEAD, in_this_process, soak
from tests.refusals import refusal

CELLS = "[cells.good]\nbuffer = 2\n[cells.void]\nbuffer = 3\n"
TOP = "rounds = 1\nretries = 0\nquarantine = 1\n"


def told(folder: BatchDirectory, width: int = 240) -> str:
    with (console := Console(width=width)).capture() as printed:
        print_status(status(folder), console)
    return printed.get()


def test_a_night_is_told_in_the_terminal(soak_place: Path) -> None:
    folder, _ = soak(soak_place, CELLS, TOP)
    text = told(folder)
    assert "ended" in text and "host stalls 1×" in text
    assert "quarantined: host stalls: 9 of 60 seconds" in text
    assert "Beside cubic the picture keeps 720p." in text
    running = folder.attempts()[-1].model_copy(update={"number": 3, "outcome": "running", "ended": None, "run": None})
    folder.record(running)
    folder.save(folder.batch.model_copy(update={"ended": None, "code": None}))
    assert "no soak is running here; it was killed, and can be resumed" in told(folder)
    for place in (folder.path, folder.path.parent):  # a night, or the folder of the nights
        assert CliRunner().invoke(app, ["soak", "status", str(place)]).exit_code == 0
    batch = json.loads(CliRunner().invoke(app, ["soak", "status", str(folder.path), "--json"]).stdout)
    assert {"phase", "cells", "left_s"} <= set(batch)
    result = CliRunner().invoke(app, ["soak", "status", str(soak_place)])
    assert result.exit_code == 1 and "neither a batch nor a folder of batches" in result.stderr


def test_a_cell_may_have_any_name(soak_place: Path) -> None:
    folder, _ = soak(soak_place, '[cells."[/x]"]\nbuffer = 2\n', TOP)
    assert "[/x]" in told(folder)


def test_memory_that_grows_is_told(soak_place: Path) -> None:
    folder, _ = soak(soak_place, "[cells.good]\nbuffer = 2\n")
    (attempt,) = folder.attempts()
    grown = [attempt.model_copy(update={"memory_mb": size}) for size in (100.0, 105.0, 130.0)]
    assert memory(grown[:2]) == "105 MB" and memory(grown) == "130 MB, +30% since its first run: it grows"


def test_the_page_answers_this_machine_only(soak_place: Path) -> None:
    folder, _ = soak(soak_place, CELLS, TOP)

    def get(path: str, host: str | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", page.at.port, timeout=10)
        connection.request("GET", path, headers={"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    with StatusPage(folder, Address("127.0.0.1", 0)) as page:
        assert page.url == f"http://127.0.0.1:{page.at.port}/" and page.at.port
        code, text = get("/")
        assert code == 200 and "quarantined: host stalls" in text and folder.path.name in text
        code, text = get("/status.json", f"localhost:{page.at.port}")
        assert code == 200 and [cell["valid"] for cell in json.loads(text)["cells"]] == [1, 0]
        for foreign in ("evil.example", f"evil.example:{page.at.port}", "127.0.0.1", "127.0.0.1:1"):
            code, text = get("/", foreign)
            assert code == 421 and "night" not in text
        assert get("/soak.json")[0] == 404
        with refusal(AddressError, "in-use", f"--status: {page.at}: "), StatusPage(folder, page.at):
            pass


def test_a_page_that_does_not_start_in_time_is_an_address_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch continues then."""
    monkeypatch.setattr(serve, "_START_S", 0.01)
    monkeypatch.setattr(StatusPage, "_serve", lambda _: None)
    page = StatusPage(BatchDirectory(tmp_path), Address("127.0.0.1", 0))
    with refusal(AddressError, "failed", "--status: 127.0.0.1:0: not served within 0.01 s"), page:
        pass


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0.0.0.0:8470", ("insecure", "0.0.0.0")),
        ("192.0.2.1:80", ("insecure", "192.0.2.1")),
        ("[::]:80", ("insecure", " :: ")),
        ("myhost:80", ("invalid-value", "'myhost'")),
        ("127.0.0.1", ("invalid-value", " port")),
        ("127.0.0.1:99999", ("invalid-value", " port")),
    ],
)
def test_an_address_that_others_could_reach_is_refused(text: str, why: tuple[Code, str]) -> None:
    with refusal(AddressError, *why, "--status: "):
        address(text)


def test_loopback_addresses() -> None:
    assert address("off") is None
    assert [str(address(text)) for text in ("localhost:1", "127.0.0.2:0", "[::1]:8470")] == [
        "127.0.0.1:1", "127.0.0.2:0", "[::1]:8470",
    ]  # fmt: skip


def test_the_morning_tells_the_night_and_what_changed(soak_place: Path) -> None:
    first, _ = soak(soak_place, CELLS, TOP)
    page = write_summary(first).read_text()
    assert "a cell has no valid run, or was quarantined" in page and "There is no earlier batch" in page
    assert not (first.path / COMPARISON).exists() and (first.path / "index.html").exists()

    cells = CELLS.replace("[cells.void]\nbuffer = 3", "[cells.other]\nbuffer = 2\nrate = '5mbit'")
    first.save(first.batch.model_copy(update={"begun": 0.0}))
    first.path.rename(first.path.with_name("20200101-000000Z"))
    second, batch = soak(soak_place, cells, TOP)
    page = write_summary(second).read_text()
    assert batch.code == SoakExit.ALL_VALID and "every cell has valid runs" in page
    assert "Compared with the batch 20200101-000000Z." in page
    assert "other: a new cell." in page and "void: no longer in the plan." in page
    assert "Valid runs: 1 in A, 1 in B." in page and (second.path / COMPARISON).exists()


def test_a_last_night_whose_files_cannot_be_read_costs_its_comparison_only(soak_place: Path) -> None:
    first, _ = soak(soak_place, CELLS, TOP)
    first.path.rename(old := first.path.with_name("20200101-000000Z"))
    second, _ = soak(soak_place, CELLS, TOP)
    (old / "plan.toml").write_text("cells = 1\n")
    page = write_summary(second).read_text()
    assert "Its cells were not compared: " in page and "Valid runs: 1 in A, 1 in B." in page
    BatchDirectory(old).file(1, ".json").write_text("{")
    page = write_summary(second).read_text()
    assert "attempts/0001.json: it: " in page and "Valid runs: 1 in A, 1 in B." in page


def test_a_night_is_told_by_a_plan_that_could_not_be_begun_any_more(soak_place: Path) -> None:
    (source := soak_place / "linux-7.1.tar.xz").touch()
    folder, _ = soak(soak_place, CELLS + f"kernel-source = '{source}'\n", TOP)
    running = folder.attempts()[0].model_copy(update={"number": 3, "outcome": "running", "ended": None, "run": None})
    folder.record(running)
    folder.save(folder.batch.model_copy(update={"ended": None, "code": None}))
    with held(folder.path.parent):
        assert " s of about " in status(folder).phase
        source.unlink()
        told = status(folder)
    assert told.phase.startswith("run 3: ") and "of about" not in told.phase
    assert [cell.name for cell in told.cells] == ["good", "void"]


def test_junit_has_a_case_a_cell(soak_place: Path) -> None:
    folder, _ = soak(soak_place, CELLS + "[cells.fails]\nbuffer = 4\n", TOP)
    write_summary(folder)
    (suite,) = ElementTree.parse(folder.path / JUNIT).getroot()
    assert suite.attrib | {"tests": "3", "failures": "2", "skipped": "0"} == suite.attrib
    cases = {case.attrib["name"]: case for case in suite}
    assert cases["good"].find("failure") is None
    failure = cases["void"].find("failure")
    assert failure is not None and "quarantined: host stalls: 9 of 60" in failure.attrib["message"]
    assert "RouterError: no answer from the router" in (cases["fails"].findtext("system-out") or "")


def test_junit_of_a_broken_lab_skips_the_rest_with_its_cause(soak_place: Path) -> None:
    (soak_place / "broken").touch()
    folder, _ = soak(soak_place, CELLS, TOP)
    page = write_summary(folder).read_text()
    assert "the lab is broken: ended: the sim lab does not work" in page and "No run finished." in page
    (suite,) = ElementTree.parse(folder.path / JUNIT).getroot()
    skipped = [case.find("skipped") for case in suite]
    assert all(it is not None and "the console ends with a panic" in it.attrib["message"] for it in skipped)


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["{plan}"], 2, "--hours is required for a new batch"),
        (["{plan}", "--resume"], 0, ""),
        (["{plan}", "--resume", "--new"], 2, "--resume and --new are mutually exclusive"),
        (["{plan}", "--hours=1", "--status=0.0.0.0:80"], 2, "--status: 0.0.0.0 is reachable"),
        (["{plan}", "--hours=0.02"], 2, "give more --hours than 0.02"),
        (["{plan}", "--hours=inf"], 2, "--hours: inf: give at most 8784"),
        (["{plan}", "--hours=1e9"], 2, "--hours: 1e+09: give at most 8784"),
        (["nowhere.toml", "--hours=1"], 2, "nowhere.toml: No such file or directory"),
    ],
)
def test_a_soak_that_cannot_begin_ends_with_one_line(
    tmp_path: Path, arguments: list[str], code: int, line: str
) -> None:
    (plan := tmp_path / "plan.toml").write_text("[cells.a]\n")
    result = CliRunner().invoke(app, ["soak", *(argument.format(plan=plan) for argument in arguments)])
    assert result.exit_code == code, result.output
    assert line in result.stderr and result.stderr.count("\n") == bool(line)
    assert list(tmp_path.glob("soak/*Z*")) == []


def test_a_killed_night_whose_time_is_up_still_gets_its_summary(soak_place: Path) -> None:
    folder, batch = soak(soak_place, "[cells.good]\nbuffer = 2\n")
    (attempt,) = folder.attempts()
    folder.record(attempt.model_copy(update={"ended": None, "outcome": "running", "run": None}))
    folder.save(batch.model_copy(update={"ended": None, "code": None, "until": time.time()}))
    result = CliRunner().invoke(app, ["soak", str(soak_place / "plan.toml"), "--resume", "--status=off"])
    assert result.exit_code == 0 and str(folder.path / "report.html") in result.stdout, result.output
    assert [(it.outcome, it.run) for it in folder.attempts()] == [("valid", attempt.run)]
    assert (folder.batch.code, folder.batch.cause) == (0, "the soak was killed, and its time was up")
    page = (folder.path / "report.html").read_text()
    assert "all cells measured" not in page
    assert "every cell has valid runs: ended: the soak was killed, and its time was up" in page


@pytest.mark.parametrize(
    ("damage", "code", "cause"),
    [
        (lambda folder: (folder.path.parent.parent / "linux-7.1.tar.xz").unlink(), 0, ""),
        (lambda folder: (folder.path / "plan.toml").write_text("cells = 1"), None, "; no verdict: "),
        (lambda folder: folder.file(1, ".json").write_text("{"), None, ""),
    ],
    ids=["its kernel is gone", "its plan is damaged", "an attempt is damaged"],
)
def test_a_killed_night_that_cannot_be_read_holds_up_no_later_one(
    soak_place: Path, damage: Callable[[BatchDirectory], object], code: int | None, cause: str
) -> None:
    cells = "[cells.good]\nbuffer = 2\n"
    (source := soak_place / "linux-7.1.tar.xz").touch()
    folder, batch = soak(soak_place, cells + f"kernel-source = '{source}'\n")
    folder.save(batch.model_copy(update={"ended": None, "code": None, "until": time.time()}))
    damage(folder)
    (soak_place / "plan.toml").write_text(cells)
    result = CliRunner().invoke(app, ["soak", str(soak_place / "plan.toml"), "--resume", "--status=off"])
    assert result.exit_code == 0 and "no interrupted batch" in result.stdout, result.output
    assert folder.batch.code == code and cause in folder.batch.cause
    assert folder.batch.ended or "remains without an end" in result.stdout
    assert soak(soak_place, cells)[1].code == SoakExit.ALL_VALID


@pytest.mark.parametrize(
    ("wrong", "code"),
    [(ValueError("not thought of: \udcff"), SoakExit.UNEXPECTED), (OSError(errno.ENOSPC, "full"), SoakExit.DISK_FULL)],
)
def test_what_nobody_thought_of_ends_the_night_in_order(
    soak_place: Path, monkeypatch: pytest.MonkeyPatch, wrong: Exception, code: SoakExit
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise wrong

    (plan := soak_place / "plan.toml").write_text(HEAD + "[cells.good]\nbuffer = 2\n")
    monkeypatch.setattr(run_plan, "Soak", partial(loop.Soak, child=CHILD, most=lambda _: 1))
    monkeypatch.setattr(loop.Stop, "listen", lambda _: None)
    monkeypatch.setattr(loop, "sweep", fail)
    (cached := soak_place / "cache").mkdir()
    monkeypatch.setenv("SOJOURN_CACHE", str(cached))
    with in_this_process():
        assert run_plan.run_plan(plan, 1) == code
    assert (cached / ".doubt").exists()  # what it takes from the cache is compared before its runs
    (folder,) = batches(soak_place / "soak")
    assert folder.batch.ended and folder.batch.code == code and type(wrong).__name__ in folder.batch.cause
    assert [it.outcome for it in folder.attempts()] == ["valid"] and (folder.path / "report.html").exists()

    monkeypatch.setattr(run_plan, "begin", fail)
    assert run_plan.run_plan(plan, 1) == code


def test_a_batch_that_is_stopped_says_that_the_same_command_resumes_it(
    soak_place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Stopped:
        def __init__(self, _plan: object, folder: BatchDirectory, *_: object) -> None:
            self.folder = folder

        def run(self) -> Batch:
            return self.folder.batch.model_copy(update={"code": 130, "cause": "stopped by SIGINT"})

    (plan := soak_place / "plan.toml").write_text(HEAD + "[cells.good]\nbuffer = 2\n")
    monkeypatch.setenv("SOJOURN_CACHE", str(soak_place / "cache"))
    monkeypatch.setattr(run_plan, "Soak", Stopped)
    monkeypatch.setattr(run_plan, "_summarise", lambda _: None)
    monkeypatch.setattr(loop.Stop, "listen", lambda _: None)
    assert run_plan.run_plan(plan, 1, page="off") == 130
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("sojourn: stopped by SIGINT; ") and "the same command resumes the batch" in line


def test_the_words_of_status_and_summary(soak_place: Path, golden: Callable[..., None]) -> None:
    folder, _ = soak(soak_place, CELLS + "[cells.fails]\nbuffer = 4\n", TOP)
    changes = r"\d{4}(-\d\d){2} \d\d:\d\d( \| \d+)?|\d+ MB|[\d.]+ GB|(?<= time=\")[\d.]+"
    golden("soak.terminal.txt", told(folder, 160), changes)
    golden("soak.html.txt", write_summary(folder).read_text(), changes)
    golden("soak.junit.txt", (folder.path / JUNIT).read_text().replace(">", ">\n"), changes)
    with StatusPage(folder, Address("127.0.0.1", 0)) as page:
        connection = http.client.HTTPConnection("127.0.0.1", page.at.port, timeout=10)
        connection.request("GET", "/")
        golden("soak-status.html.txt", connection.getresponse().read().decode(), changes)
