# SPDX-License-Identifier: Apache-2.0
"""Whatever reads runs: none that is void, killed or edited gives a figure; each command is asked for each such run."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import typer
from click.testing import Result
from typer.testing import CliRunner

from sojourn.harness.cli import app
from sojourn.harness.cli.common import renew_report
from sojourn.harness.store.manifest import MANIFEST, read_manifest, reseal, write_manifest
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import SCORES, Scores

#: Figures that no text has by chance: harm, goodput of the contender and of the victim, seconds of stall.
PLANTED = ("0.8417", "9.1733", "0.4177", "3.5321")


def other(run: Path) -> Path:
    """The valid run beside which a run is compared."""
    (there,) = (run.parent.parent / "other").glob("*o2tv*")
    return there


def verdict(run: Path, place: Path) -> list[str]:
    """As for a pipeline, with all that it can write."""
    lines = "victim_mbps > 0", "contender_mbps > 0", "stall_s >= 0", "harm.victim_mbps < 2"
    (file := run.parent.parent / "thresholds.toml").write_text(f"thresholds = {json.dumps(lines)}\n")
    written = [f"--junit={run.parent / 'out.xml'}", f"--markdown={run.parent / 'out.md'}"]
    return ["verdict", str(place), f"--thresholds={file}", "--no-rescore", *written]  # they have no raw files


#: Commands that show figures of runs: their arguments, with the run or the folder that holds it.
READERS: dict[str, Callable[[Path], list[str]]] = {
    "report": lambda run: ["report", str(run)],
    "report of a folder": lambda run: ["report", str(run.parent)],
    "summary": lambda run: ["summary", str(run), "-o", str(run.parent / "out")],
    "summary of a folder": lambda run: ["summary", str(run.parent), "-o", str(run.parent / "out")],
    "verdict": lambda run: verdict(run, run),
    "verdict of a folder": lambda run: verdict(run, run.parent),
    "summary as JSON": lambda run: ["summary", str(run), "--json", "-o", str(run.parent / "out")],
    "summary as metrics": lambda run: [
        "summary",
        str(run),
        f"--openmetrics={run.parent / 'out.prom'}",
        "-o",
        str(run.parent / "out"),
    ],
    "compare as JSON": lambda run: ["compare", str(run), str(other(run)), "--json", "-o", str(run.parent / "c.html")],
    "compare": lambda run: ["compare", str(run), str(other(run)), "-o", str(run.parent / "compare.html")],
    "compare of folders": lambda run: [
        "compare",
        str(run.parent),
        str(other(run).parent),
        "-o",
        str(run.parent / "compare.html"),
    ],
    "trend of folders": lambda run: [
        "trend",
        str(run.parent),
        str(other(run).parent),
        "-o",
        str(run.parent / "trend.html"),
    ],
    "ls of a folder": lambda run: ["ls", str(run.parent)],
    "ls of a folder as JSON": lambda run: ["ls", str(run.parent), "--json"],
    "open": lambda run: ["open", str(run)],
    "open of a folder": lambda run: ["open", str(run.parent)],
    "figure": lambda run: ["figure", str(run), "-o", str(run.parent / "figure.svg")],
    "figure of delays": lambda run: ["figure", str(run), "--kind=ccdf", "-o", str(run.parent / "figure.svg")],
    "figure of runs": lambda run: [
        "figure",
        str(run.parent),
        "--kind=bar",
        "--metric=harm.victim_mbps",
        "-o",
        str(run.parent / "figure.svg"),
    ],
    "mos": lambda run: ["mos", str(run), "--json", "--inputs", str(run.parent / "inputs")],
    "quality": lambda run: ["quality", str(run), "--json", "-o", str(run.parent / "quality.csv")],
    "data": lambda run: ["data", str(run), "-o", str(run.parent / "out")],
    "bundle export": lambda run: ["bundle", "export", str(run), "-o", str(run.parent / "run.sojourn.tar.zst")],
}
#: Exit codes of those that say that the runs here are too few.
TOO_FEW = {"trend of folders": 3}
#: The other ones, and why they show none.
OTHERS = {
    "build": "no run", "doctor": "no run", "lab check": "no run", "lab init": "no run", "lab power": "no run",
    "harm": "makes runs",
    "rescore": "judges from the raw files", "rerun": "compares bytes", "matrix": "cells, not runs",
    "map": "reads by index and experiments, as report and summary do", "paper": "by experiments, as summary",
    "flent": "cells, not runs", "bundle verify": "compares hashes", "bundle import": "compares hashes",
    "bundle crate": "of a bundle", "rm": "deletes runs", "film": "a film, stamped with what the run is (test_film)",
    "ecn": "counts packets, no figure of the scores", "profile": "no run",
}  # fmt: skip


@pytest.fixture
def run(scores: Scores, tmp_path: Path) -> Path:
    """A finished, valid run with planted figures."""
    told = scores.model_dump()
    told["harm"][0] |= {"value": float(PLANTED[2]), "harm": float(PLANTED[0])}
    told["phases"][1] |= {
        "contender_mbps": float(PLANTED[1]), "victim_mbps": float(PLANTED[2]), "stall_s": float(PLANTED[3])
    }  # fmt: skip
    made(tmp_path / "other", scores)
    return made(tmp_path / "results", Scores.model_validate(told))


def made(results: Path, scores: Scores) -> Path:
    with RunStore(results).create("video-harm", "o2tv 20mbit", seed=1) as run:
        (run.path / "options.json").write_text(json.dumps({"service": "o2tv", "seed": 1, "phases": []}))
        (run.path / "timeline.json").write_text(json.dumps({"phases": []}))
        (run.path / SCORES).write_text(scores.model_dump_json())
        path = run.commit()
    renew_report(path)
    return path


def void(run: Path) -> Path:
    reseal(run, reasons=[Reason(code="lab-jitter", text="the lab's jitter \x1b[2K\rVALID")])
    return run


def partial(run: Path) -> Path:
    """As a kill before the commit leaves it."""
    manifest = read_manifest(run)
    (run / "report.html").unlink()
    write_manifest(run, manifest.model_copy(update={"status": "interrupted", "finished": None, "files": {}}))
    return run.rename(run.with_name(run.name + ".partial"))


def interrupted(run: Path) -> Path:
    changes = {"status": "interrupted", "reasons": [Reason.of("stopped", "Ctrl-C")]}
    write_manifest(run, read_manifest(run).model_copy(update=changes))
    return run


def edited(run: Path) -> Path:
    text = (run / SCORES).read_text()
    (run / SCORES).write_text(text.replace('"stalls":2', '"stalls":3'))
    assert (run / SCORES).read_text() != text
    return run


def edited_options(run: Path) -> Path:
    (run / "options.json").write_text(json.dumps({"service": "youtube", "seed": 1, "phases": []}))
    return run


def unlisted(run: Path) -> Path:
    manifest = read_manifest(run)
    del manifest.files[SCORES]
    write_manifest(run, manifest)
    return run


def no_manifest(run: Path) -> Path:
    (run / MANIFEST).unlink()
    return run


def bad_manifest(run: Path) -> Path:
    (run / MANIFEST).write_text('{"schema_version": 1}')
    return run


SPOILED = [void, partial, interrupted, edited, edited_options, unlisted, no_manifest, bad_manifest]


def ask(arguments: list[str]) -> Result:
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})


def written(folder: Path, before: dict[Path, bytes]) -> Iterator[tuple[Path, str]]:
    """The texts that a command wrote or changed; not those of the run that were there."""
    for path in folder.rglob("*"):
        if path.is_file() and path.name not in (SCORES, MANIFEST) and before.get(path) != path.read_bytes():
            yield path, path.read_text(errors="replace")


def figures_in(text: str) -> list[str]:
    """Those of the planted figures that a text shows, rounded to two digits or not."""
    return [figure for figure in PLANTED if figure in text or f"{float(figure):.2f}" in text]


def test_each_command_is_known() -> None:
    def names(command: Any, above: str = "") -> Iterator[str]:
        for name, below in command.commands.items():
            if getattr(below, "commands", None):
                yield from names(below, f"{above}{name} ")
            else:
                yield f"{above}{name}"

    known = {name.partition(" of ")[0] for name in READERS} | set(OTHERS)
    missing = {name for name in names(typer.main.get_command(app)) if not name.startswith(("soak", "hardware"))} - known
    assert not missing, f"does it show figures of runs? {missing}"


@pytest.mark.parametrize("reader", [name for name in READERS if name not in ("mos", "quality", "data")])
def test_a_valid_run_gives_its_figures(run: Path, reader: str) -> None:
    """Else the test below could not fail."""
    before = {
        path: path.read_bytes() for path in run.parent.rglob("*") if path.is_file() and path.name != "report.html"
    }
    done = ask(READERS[reader](run))
    assert done.exit_code == TOO_FEW.get(reader, 0), done.stderr
    if reader in ("figure", "figure of delays", "bundle export"):
        return
    told = done.stdout + "".join(text for _, text in written(run.parent, before))
    assert figures_in(told), told


@pytest.mark.parametrize("spoil", SPOILED)
@pytest.mark.parametrize("reader", READERS)
def test_no_other_run_gives_any(run: Path, reader: str, spoil: Callable[[Path], Path]) -> None:
    run = spoil(run)
    shown = run / "report.html"
    shown.unlink(missing_ok=True)  # made when the run was valid
    before = {path: path.read_bytes() for path in run.parent.rglob("*") if path.is_file()}
    done = ask(READERS[reader](run))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    said = done.stdout + done.stderr
    texts = [text for path, text in written(run.parent, before) if path != shown or spoil is not void]
    assert not any(figures_in(text) for text in (said, *texts)), said
    assert "\x1b" not in said and "\r" not in said
    if spoil is void and shown.exists():  # what was recorded, for diagnosis, marked as such
        page = shown.read_text()
        assert ">measurement: invalid<" in page and "<h2>Harm</h2>" not in page and "\x1b" not in page
    if (
        " of " not in reader
        and reader != "bundle export"
        and (spoil is not void or reader in ("figure", "mos", "quality", "data"))
    ):
        assert done.exit_code == (4 if reader == "verdict" else 1) and run.name in said, said
    elif reader == "verdict":
        assert done.exit_code == 3, said
    rows = run.parent / "out" / "summary.csv"
    assert not rows.exists() or not list(csv.DictReader(rows.open()))


@pytest.mark.parametrize("reader", ["report", "figure", "figure of delays"])
def test_a_picture_is_made_of_sealed_files_alone(run: Path, reader: str) -> None:
    (run / "qdisc.jsonl").write_text('{"t": 1, "dev": "lan", "qdiscs": []}\n')
    done = ask(READERS[reader](run))
    assert done.exit_code == 1 and "qdisc.jsonl does not match the manifest" in done.stderr


@pytest.mark.parametrize(
    "reader", [name for name in READERS if name.startswith(("summ", "verd", "comp", "trend", "bun"))]
)
def test_figures_are_told_of_runs_alone_whose_raw_files_are_as_recorded(run: Path, reader: str) -> None:
    """One bit of a recording; the index and the pages of a run and a night check what their figures are made of."""
    (run / "screen.mp4").write_bytes(b"recorded")
    reseal(run, "screen.mp4")
    assert ask(READERS[reader](run)).exit_code == TOO_FEW.get(reader, 0)
    for path in [run.parent / "out", run.parent / "run.sojourn.tar.zst"]:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    (run / "screen.mp4").write_bytes(b"recorde`")
    before = {path: path.read_bytes() for path in run.parent.rglob("*") if path.is_file()}
    done = ask(READERS[reader](run))
    said = done.stdout + done.stderr
    assert "screen.mp4" in said or done.exit_code == TOO_FEW.get(reader), said
    assert not any(figures_in(text) for text in (said, *(text for _, text in written(run.parent, before)))), said


@pytest.mark.parametrize("reader", ["verdict", "summary", "compare", "trend of folders", "report of a folder"])
def test_a_name_in_a_valid_run_does_not_move_the_terminal(run: Path, reader: str) -> None:
    for place in (run, other(run)):
        text = (place / SCORES).read_text()
        (place / SCORES).write_text(text.replace('"prague"', '"pr\\u001b[2Jague"'))
        reseal(place, SCORES)
    done = ask(READERS[reader](run))
    assert done.exit_code in (0, 1, TOO_FEW.get(reader)) and "\x1b" not in done.stdout + done.stderr
    if (junit := run.parent / "out.xml").exists():
        ElementTree.parse(junit)


@pytest.mark.parametrize("reader", ["verdict of a folder", "trend of folders", "report of a folder"])
def test_one_odd_run_is_named_and_hides_no_other(run: Path, reader: str) -> None:
    odd = made(run.parent, Scores.model_validate_json((run / SCORES).read_bytes()))
    (odd / "options.json").write_text('{"service": "o2tv", "phases": [{}]}')
    reseal(odd, "options.json")
    done = ask(READERS[reader](run))
    said = done.stdout + done.stderr + "".join(text for _, text in written(run.parent, {}))
    assert done.exit_code == (4 if reader.startswith("verdict") else TOO_FEW.get(reader, 0)), said
    assert odd.name in said and "options.json: phases: 0.contender: Field required" in said


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def many(file: Path) -> None:
    """A bundle with it would have some kilobytes; parsed it takes a hundred times this file's 12 MB."""
    file.write_text('{"x": [' + "[]," * (4 << 20) + "[]]}")


@pytest.mark.parametrize("spoil", [pipe, many])
@pytest.mark.parametrize("name", [SCORES, "options.json", MANIFEST])
def test_no_file_of_an_odd_run_keeps_others_waiting(run: Path, name: str, spoil: Callable[[Path], None]) -> None:
    odd = made(run.parent, Scores.model_validate_json((run / SCORES).read_bytes()))
    spoil(odd / name)
    if spoil is many and name != MANIFEST:
        reseal(odd, name)
    done = ask(READERS["report of a folder"](run))
    assert done.exit_code == 0, done.output
    if (name, spoil) != ("options.json", many):  # which is then not known of it
        assert odd.name in (run.parent / "index.html").read_text()
        why = "Not a plain file" if spoil is pipe else "it has more than" if name == SCORES else "is larger than"
        assert why in (run.parent / "index.html").read_text()


def test_unfinished_runs_are_named_with_a_verdict_and_a_summary(run: Path) -> None:
    partial(killed := made(run.parent, Scores.model_validate_json((run / SCORES).read_bytes())))
    done = ask(READERS["verdict of a folder"](run))
    assert done.exit_code == 0 and f"excluded: {killed}.partial: interrupted" in done.stdout
    done = ask(READERS["summary of a folder"](run))
    assert done.exit_code == 0 and f"excluded: {killed}.partial: interrupted" in done.stderr
    assert "1 run excluded, in no figure" in done.stderr


@pytest.mark.parametrize("command", ["verdict", "trend"])
def test_what_cannot_even_be_imported_is_no_verdict(run: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where memory is short: exit code 1 would say that thresholds are not met."""
    for module in ("sojourn.harness.report.verdict", "sojourn.harness.report.trend"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delattr("sojourn.harness.report.verdict", raising=False)
    monkeypatch.delattr("sojourn.harness.report.trend", raising=False)
    done = ask([command, str(run), *["--thresholds=t.toml"] * (command == "verdict")])
    assert done.exit_code == 4 and done.stderr.startswith("sojourn: ") and done.stderr.count("\n") == 1
