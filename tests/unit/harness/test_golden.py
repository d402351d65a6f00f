# SPDX-License-Identifier: Apache-2.0
"""The words of each kind of page, and of what commands print; `pytest --update-golden` rewrites what differs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.harness.lab import doctor
from sojourn.harness.report.experiments import experiments, find_runs
from sojourn.harness.report.index import write_index
from sojourn.harness.report.repetitions import write_summary
from sojourn.harness.report.run_page import write_report
from sojourn.harness.report.terminal import print_scores, print_summary
from sojourn.harness.store.manifest import reseal
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import Scores

Golden = Callable[..., None]
Series = Callable[..., list[Path]]
WIDE = {"COLUMNS": "160"}


def command(*arguments: object) -> str:
    """What a command prints on a terminal of 160 columns, and its exit code if that is not 0."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], env=WIDE)
    assert done.exit_code == 0 or isinstance(done.exception, SystemExit), done.exception
    return done.output + (f"exit code {done.exit_code}\n" if done.exit_code else "")


def finished(scores: Scores, place: Path) -> Path:
    with RunStore(place).create("video-harm", "youtube", command_line=["sojourn", "harm"]) as run:
        (run.path / "options.json").write_text('{"service": "youtube", "seed": 1, "phases": []}')
        (run.path / "timeline.json").write_text('{"phases": []}')
        (run.path / "scores.json").write_text(scores.model_dump_json())
        return run.commit()


def invalid(scores: Scores) -> Scores:
    gate = {"name": "jitter", "ok": False, "measured": "9 ms", "limit": "2 ms", "reason": "jitter: 9 ms, at most 2 ms"}
    return Scores.model_validate(scores.model_dump() | {"harm": [], "validity": {"valid": False, "gates": [gate]}})


def test_a_runs_page(scores: Scores, tmp_path: Path, golden: Golden) -> None:
    versions = {"iperf3": "3.18", "guest chromium": "150.0"}
    for name, told in (("run", scores), ("run-invalid", invalid(scores))):
        run = finished(told, tmp_path / name)
        (run / "lab.json").write_text(json.dumps({"versions": versions}))
        golden(f"{name}.html.txt", write_report(run, told).read_text())


def test_a_run_on_a_terminal(scores: Scores, tmp_path: Path, golden: Golden) -> None:
    (tmp_path / "options.json").write_text('{"service": "youtube"}')
    output = StringIO()
    for told in (scores, invalid(scores)):
        print_scores(told, tmp_path, Console(file=output, width=160))
    golden("run.terminal.txt", output.getvalue())


def test_the_index_the_summary_and_the_comparison(series: Series, tmp_path: Path, golden: Golden) -> None:
    first = series([1, 2, 3, 2, 1], void=[9])[0].parent
    golden("index.html.txt", write_index(first).read_text())
    found = experiments(find_runs([first]))
    golden("summary.html.txt", write_summary(found, tmp_path / "out").read_text())
    print_summary(found, Console(file=(output := StringIO()), width=160))
    golden("summary.terminal.txt", output.getvalue())
    first = first.rename(tmp_path / "a")
    second = series([6, 7, 8, 7, 6], qdisc="dualpi2")[0].parent
    golden("compare.terminal.txt", command("compare", first, second, "-o", tmp_path / "compare.html"))
    golden("compare.html.txt", (tmp_path / "compare.html").read_text())
    text = command("trend", first, second, "-o", tmp_path / "trend.html")
    golden("trend.terminal.txt", text)
    golden("trend.html.txt", (tmp_path / "trend.html").read_text())


def test_a_verdict_and_a_verification(scores: Scores, tmp_path: Path, golden: Golden) -> None:
    run = finished(scores, tmp_path / "results")
    (file := tmp_path / "thresholds.toml").write_text('thresholds = ["stalls >= 0", "victim_mbps > 1000"]\n')
    demanded = ["--no-rescore", f"--thresholds={file}", f"--markdown={tmp_path / 'verdict.md'}"]
    text = [command("verdict", run, *demanded), command("verdict", run, "--sure", *demanded)]
    text += [(tmp_path / "verdict.md").read_text(), command("bundle", "verify", run, "--no-rescore")]
    reseal(run, reasons=[Reason(code="lab-jitter", text="jitter: 9 ms, at most 2 ms")])
    text += [command("verdict", run, *demanded), command("bundle", "verify", run, "--no-rescore")]
    (run / "options.json").write_text("{}")
    text += [command("verdict", run, *demanded), command("bundle", "verify", run, "--no-rescore")]
    golden("verdict-verify.terminal.txt", "\n".join(text))


def test_help(golden: Golden) -> None:
    """Of every command but `harm`, whose options have tests of their own."""

    def commands(one: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        yield path
        for name, inner in getattr(one, "commands", {}).items():
            yield from commands(inner, (*path, name))

    paths = [path for path in commands(typer.main.get_command(app)) if path != ("harm",)]
    texts = [f"$ sojourn {' '.join(path)} --help\n{command(*path, '--help')}" for path in paths]
    golden("help.txt", re.sub(r"^[╭╰].*\n|│| +(?=│$)|(?<=  ) +", "", "\n".join(texts), flags=re.MULTILINE))


def test_doctor(tmp_path: Path, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what a machine could be like: the parts that judge a given machine."""
    fix = doctor.namespace_fix({"kernel/unprivileged_userns_clone": "0"})
    found = [
        doctor.Finding("cores", "ok", "2", labs=("virtual",)),
        doctor.Finding("user namespaces", "missing", "refused", fix, ("virtual",)),
        doctor.congestion_control("reno cubic"),
        doctor.clock("hpet"),
        doctor.jitter([0.06] * 980 + [5.0] * 20),
        *doctor.caches(tmp_path),
    ]
    file = Path(__file__).parents[3] / "docs" / "examples" / "labs" / "black-box.toml"
    verdicts = {
        lab: doctor.judged(lab, found, [], file if lab == "black-box" else None)
        for lab in ("sim", "virtual", "black-box")
    }
    monkeypatch.setattr(doctor, "examine", lambda *_: (found, verdicts))
    text = "\n".join((command("doctor"), command("doctor", "--lab=virtual"), command("doctor", "--lab=moon")))
    golden("doctor.terminal.txt", text.replace(str(file.parents[3]), "CHECKOUT"))
