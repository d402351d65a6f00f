# SPDX-License-Identifier: Apache-2.0
"""A run that was changed together with its hashes: the scores are computed again from the raw files, and it shows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from harness.bundle.export import Wish, export
from harness.cli import app
from harness.experiment import score_check
from harness.experiment.run import keep_run
from harness.experiment.score_check import NotComputedError, ScoreError, check_scores
from harness.store.manifest import hash_file, prune, read_manifest, reseal, write_manifest
from scoring.score import score_run
from scoring.scores import SCORES
from tests.unit.harness.experiment.test_options import parse


@pytest.fixture
def whole(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recorded run as `sojourn harm` keeps it, and a cache of its own."""
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path / "cache"))

    def fill(made: object) -> object:
        place = made.path  # type: ignore[attr-defined]
        shutil.copytree(run, place, dirs_exist_ok=True)
        (place / "options.json").write_text(json.dumps({"service": "youtube", "seed": 1, "phases": []}))
        scores = score_run(place)
        (place / SCORES).write_text(scores.model_dump_json(indent=1) + "\n")
        return scores

    return keep_run("video-harm", parse(results=str(tmp_path / "results")), ["sojourn"], fill).path  # type: ignore[arg-type]


def ask(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "300"})


def verdict(run: Path, *more: object) -> Result:
    (file := run.parent / "thresholds.toml").write_text('thresholds = ["stalls beside prague == 0"]\n')
    return ask("verdict", run, f"--thresholds={file}", *more)


def forget(run: Path, *names: str, required: bool = False) -> None:
    """Take files out of the folder and of the manifest's hashes; with `required` out of all that it says."""
    manifest = read_manifest(run)
    for name in names:
        (run / name).unlink()
        del manifest.files[name]
    if required:
        manifest.required = [name for name in manifest.required if name not in names]
    write_manifest(run, manifest)


def number(run: Path) -> None:
    scores = json.loads((run / SCORES).read_text())
    scores["phases"][1]["stalls"] = 0
    (run / SCORES).write_text(json.dumps(scores))
    reseal(run, SCORES)


def gone(run: Path) -> None:
    forget(run, "qdisc.jsonl")


def gone_for_good(run: Path) -> None:
    forget(run, "qdisc.jsonl", "host.jsonl", required=True)


def of_another_run(run: Path) -> None:
    shutil.copy(run / "server.pcapng.zst", run / "client.pcapng.zst")
    reseal(run, "client.pcapng.zst")


def no_lab(run: Path) -> None:
    forget(run, "lab.json", required=True)


CHANGED: dict[Callable[[Path], None], str] = {
    number: "scores.json is not what its raw files give: phases[prague].stalls: stored 0, now 2",
    gone: "15 of 16 files: qdisc.jsonl is missing",
    gone_for_good: "14 of 16 files: qdisc.jsonl and 1 more are missing",
    of_another_run: "scores.json is not what its raw files give: flows[0].ce: stored ",
    no_lab: "scores.json cannot be computed from its raw files: lab.json cannot be read",
}


def test_a_whole_run_passes_and_the_second_time_from_the_cache(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"qdisc.jsonl", "host.jsonl", "client.pcapng.zst", "irtt.json.gz", SCORES} <= {
        *read_manifest(whole).required
    }
    assert verdict(whole).exit_code == 1
    monkeypatch.setattr(score_check, "score_run", lambda _: pytest.fail("computed again"))
    done = ask("bundle", "verify", whole)
    assert done.exit_code == 0 and done.stdout.splitlines()[1:] == ["not signed", "scores computed again: the same"]
    assert verdict(whole).exit_code == 1 and not verdict(whole).stderr


@pytest.mark.parametrize("change", CHANGED)
def test_a_changed_run_is_named_by_verdict_verify_and_of_a_bundle(whole: Path, change: Callable[[Path], None]) -> None:
    change(whole)
    for done, code in ((verdict(whole), 4), (ask("bundle", "verify", whole), 1)):
        assert done.exit_code == code, done.output
        assert done.stderr.startswith(f"sojourn: {whole}: {CHANGED[change]}") and done.stderr.count("\n") == 1
    if change is not gone:  # which no export takes
        bundle = export(whole)
        done = ask("bundle", "verify", bundle)
        assert done.exit_code == 1 and CHANGED[change].partition(": ")[2] in done.stderr, done.stderr


def test_without_computing_a_changed_number_passes_and_each_command_says_so(whole: Path) -> None:
    assert verdict(whole, "--no-rescore").exit_code == 1
    number(whole)
    done = verdict(whole, "--no-rescore")
    assert done.exit_code == 0 and done.stderr == "scores NOT computed again: --no-rescore\n"
    done = ask("bundle", "verify", whole, "--no-rescore")
    assert done.exit_code == 0 and done.stdout.splitlines()[-1] == "scores NOT computed again: --no-rescore"
    assert "NOT computed" in json.loads(ask("bundle", "verify", whole, "--no-rescore", "--json").stdout)["scores"]


def test_what_has_no_recording_any_more_is_not_called_the_same(whole: Path) -> None:
    bundle = export(whole, wish=Wish(without_video=True))
    prune(whole, "screen.mp4")
    says = "screen.mp4: removed to make room, or left out of the bundle"
    for place in (whole, bundle):
        done = ask("bundle", "verify", place)
        assert done.exit_code == 0 and done.stdout.splitlines()[-1] == f"scores NOT computed again: {says}"
    done = verdict(whole)
    assert done.exit_code == 4 and says in done.stderr
    assert verdict(whole, "--no-rescore").exit_code == 1


def test_an_anonymised_bundle_of_it_gives_the_same_scores(whole: Path) -> None:
    done = ask("bundle", "verify", export(whole, wish=Wish(anonymise=True)))
    assert done.exit_code == 0 and done.stdout.endswith("scores computed again: the same\n"), done.output


def test_scores_of_another_scorer_are_not_compared(whole: Path) -> None:
    text = (whole / SCORES).read_text()
    (whole / SCORES).write_text(text.replace('"scorer": "', '"scorer": "0.'))
    reseal(whole, SCORES)
    assert ask("bundle", "verify", whole).stdout.endswith("scores computed again: the same\n")  # no value differs
    number(whole)
    with pytest.raises(NotComputedError, match=r"scores of scorer 0\..*`sojourn rescore --write"):
        check_scores(whole, read_manifest(whole))


def test_what_is_kept_is_bounded_and_believed_only_whole(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_scores(whole, read_manifest(whole))
    (kept,) = (whole.parent.parent / "cache" / "scores").iterdir()
    content = kept.read_bytes()
    kept.write_bytes(content[:-20] + bytes(20))
    check_scores(whole, read_manifest(whole))
    assert kept.read_bytes() == content
    (whole / "note.log").write_text("another raw file\n")
    manifest = read_manifest(whole)
    manifest.files["note.log"] = hash_file(whole / "note.log")
    monkeypatch.setattr(score_check, "_MOST_BYTES", kept.stat().st_size * 3 // 2)
    check_scores(whole, manifest)
    (other,) = kept.parent.iterdir()
    assert other.name != kept.name


def test_scores_that_are_none_are_refused(whole: Path) -> None:
    for text in ("[]", "{", "[" * 100_000):
        (whole / SCORES).write_text(text)
        reseal(whole, SCORES)
        with pytest.raises(ScoreError, match="holds no scores"):
            check_scores(whole, read_manifest(whole))
