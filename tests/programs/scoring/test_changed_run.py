# SPDX-License-Identifier: Apache-2.0
"""A run that was changed together with its hashes: the scores are computed again from the raw files, and it shows."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from click.testing import Result
from typer.testing import CliRunner

from sojourn.hardware.machine.files import lock
from sojourn.harness.bundle.archive import check
from sojourn.harness.bundle.export import ExportRequest, export
from sojourn.harness.cli import app
from sojourn.harness.experiment import score_check
from sojourn.harness.experiment.run import fill_run, finish_run, finish_unscored, new_run, perform
from sojourn.harness.experiment.score_check import NotComputedError, ScoreError, check_scores
from sojourn.harness.store.manifest import (
    REPORT,
    SIGNATURE,
    StoreError,
    hash_file,
    prune,
    read_manifest,
    reseal,
    write_manifest,
)
from sojourn.harness.store.runs import RunDirectory
from sojourn.harness.store.signature import SignatureError
from sojourn.scoring.schema.scores import SCORES
from tests.refusals import refusal
from tests.unit.harness.bundle.test_archive import keys as keys  # a fixture
from tests.unit.harness.options.test_options import parse


@pytest.fixture(scope="module")
def kept(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recorded run as `sojourn harm` keeps it."""
    return again(recorded, tmp_path_factory.mktemp("kept"))


@pytest.fixture
def whole(kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that run, to be changed, and a cache of its own."""
    monkeypatch.setenv("SOJOURN_CACHE", str(tmp_path / "cache"))
    return Path(shutil.copytree(kept, tmp_path / "results" / kept.name))


def again(run: Path, place: Path, say: Callable[[str], None] = lambda _: None, **asked: str) -> Path:
    """Make a run, of which the files are those of another one."""
    options = parse(results=str(place / "results"), rpm="off", **asked)

    def record(made: RunDirectory) -> None:
        files = shutil.ignore_patterns("manifest.json*", "options.json", SCORES, "report.html")
        shutil.copytree(run, made.path, ignore=files, dirs_exist_ok=True)

    with new_run("video-harm", options, []) as made:
        return finish_run(made, options, fill_run(made, options, record, say)).path


def test_a_valid_run_keeps_no_recording_where_only_those_of_failures_are_retained(
    recorded: Path, tmp_path: Path
) -> None:
    run = again(recorded, tmp_path, video="retain-on-failure")
    manifest = read_manifest(run)
    assert manifest.status == "valid" and not (run / "screen.mp4").exists()
    assert list(manifest.pruned) == ["screen.mp4"] and "screen.mp4" not in manifest.files
    assert 'src="screen.mp4"' not in (run / REPORT).read_text()
    (tmp_path / "damaged").mkdir()
    damaged = Path(shutil.copytree(recorded, tmp_path / "damaged" / recorded.name))
    (damaged / "host.jsonl").unlink(missing_ok=True)
    (damaged / "irtt-unshaped.json.gz").write_bytes((damaged / "irtt.json.gz").read_bytes())
    failed = again(damaged, tmp_path / "failed", video="retain-on-failure")
    assert read_manifest(failed).status == "void" and (failed / "screen.mp4").exists()


def cut_in_scoring(run: Path, place: Path) -> Path:
    """Make such a run, which is stopped when its scores are computed."""

    def stop(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        again(run, place, stop)
    (left,) = (place / "results").iterdir()
    return left


def test_a_run_that_was_stopped_in_scoring_is_finished_by_rescore(kept: Path, tmp_path: Path) -> None:
    left = cut_in_scoring(kept, tmp_path)
    assert left.name.endswith(".partial") and [it.code for it in read_manifest(left).reasons] == ["not-scored"]
    done = ask("rescore", left)
    finished = left.with_name(left.name.removesuffix(".partial"))
    assert done.exit_code == 0 and str(finished) in done.output and not left.exists(), done.output
    assert (finished / SCORES).read_bytes() == (kept / SCORES).read_bytes() and (finished / REPORT).exists()
    manifest, whole = read_manifest(finished), read_manifest(kept)
    assert (manifest.status, manifest.reasons, manifest.required) == (whole.status, whole.reasons, whole.required)
    assert ask("rescore", finished).exit_code == ask("bundle", "verify", finished).exit_code == 0


def test_a_run_that_was_stopped_in_scoring_is_not_finished_if_its_files_changed(kept: Path, tmp_path: Path) -> None:
    left = cut_in_scoring(kept, tmp_path)
    (left / "player.jsonl").write_text("{}\n")
    done = ask("rescore", left)
    assert done.exit_code == 1 and "player.jsonl: differs from the manifest" in done.stderr and left.exists()
    assert read_manifest(left).status == "interrupted"


def test_a_run_that_is_in_use_is_not_finished(kept: Path, tmp_path: Path) -> None:
    left = cut_in_scoring(kept, tmp_path)
    held = os.open(left, os.O_RDONLY)
    lock(held)
    with refusal(StoreError, "in-use", left):
        finish_unscored(left)
    os.close(held)
    assert not finish_unscored(left).void


def ask(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "300"})


def verdict(run: Path, *more: object) -> Result:
    (file := run.parent / "thresholds.toml").write_text('thresholds = ["stalls with prague == 0"]\n')
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


def order(run: Path) -> None:
    scores = json.loads((run / SCORES).read_text())
    scores["harm"].reverse()
    (run / SCORES).write_text(json.dumps(scores))
    reseal(run, SCORES)


def twice(run: Path) -> None:
    """Of two values of one name readers of JSON take the first or the last."""
    text = (run / SCORES).read_text()
    (run / SCORES).write_text(text.replace('"stalls": 2', '"stalls": 0, "stalls": 2'))
    reseal(run, SCORES)


def unreadable(run: Path) -> None:
    (run / SCORES).write_text("\ufeff" + (run / SCORES).read_text())
    reseal(run, SCORES)


CHANGED: dict[Callable[[Path], None], str] = {
    order: "scores.json is not what its raw files give: its entries are in another order",
    twice: "scores.json: holds no scores",
    unreadable: "scores.json: ",
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
    assert done.exit_code == 0 and done.stdout.splitlines()[1:] == ["not signed", "scores recomputed: unchanged"]
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


def test_a_page_of_the_senders_is_named(whole: Path) -> None:
    told = "report.html does NOT match these scores"
    for place in (made := export(whole), export(whole, request=ExportRequest(anonymise=True))):
        assert told not in ask("bundle", "verify", place).stdout
    made.unlink()
    (whole / REPORT).write_text("<h1>no harm</h1><script>alert(1)</script>")
    reseal(whole, REPORT)
    done = ask("bundle", "verify", export(whole))
    assert done.exit_code == 0 and told in done.stdout, done.output
    assert json.loads(ask("bundle", "verify", whole, "--json").stdout)["other_page"]
    assert ask("report", whole).exit_code == 0 and told not in ask("bundle", "verify", whole).stdout


def test_without_computing_a_changed_number_passes_and_each_command_says_so(whole: Path) -> None:
    assert verdict(whole, "--no-rescore").exit_code == 1
    number(whole)
    done = verdict(whole, "--no-rescore")
    assert done.exit_code == 0 and done.stderr == "scores NOT recomputed: --no-rescore\n"
    done = ask("bundle", "verify", whole, "--no-rescore")
    assert done.exit_code == 0 and done.stdout.splitlines()[-1] == "scores NOT recomputed: --no-rescore"
    assert "NOT recomputed" in json.loads(ask("bundle", "verify", whole, "--no-rescore", "--json").stdout)["scores"]


def test_what_has_no_recording_any_more_is_not_called_the_same(whole: Path) -> None:
    bundle = export(whole, request=ExportRequest(without_video=True))
    prune(whole, "screen.mp4")
    says = "screen.mp4: pruned to free space, or excluded from the bundle"
    for place in (whole, bundle):
        done = ask("bundle", "verify", place)
        assert done.exit_code == 0 and done.stdout.splitlines()[-1] == f"scores NOT recomputed: {says}"
    done = verdict(whole)
    assert done.exit_code == 4 and says in done.stderr
    assert verdict(whole, "--no-rescore").exit_code == 1


def test_an_anonymised_bundle_of_it_gives_the_same_scores(whole: Path) -> None:
    done = ask("bundle", "verify", export(whole, request=ExportRequest(anonymise=True)))
    assert done.exit_code == 0 and done.stdout.endswith("scores recomputed: unchanged\n"), done.output


def test_scores_of_another_scorer_are_not_compared(whole: Path) -> None:
    text = (whole / SCORES).read_text()
    (whole / SCORES).write_text(text.replace('"scorer": "', '"scorer": "0.'))
    reseal(whole, SCORES)
    assert ask("bundle", "verify", whole).stdout.endswith("scores recomputed: unchanged\n")  # no value differs
    number(whole)
    differs = "phases[prague].stalls: stored 0, now 2"
    with refusal(NotComputedError, "other-version", "scorer 0.", differs, "`sojourn rescore --write RUN`"):
        check_scores(whole, read_manifest(whole))
    done = ask("bundle", "verify", bundle := export(whole))
    *_, page, scores = done.stdout.splitlines()
    assert page == "report.html NOT compared with the scores"
    assert scores.startswith("scores NOT recomputed: the scores of scorer 0.") and f": {differs}; `" in scores
    assert "-bundle/" not in done.stdout  # the scratch folder is gone
    assert json.loads(ask("bundle", "verify", bundle, "--json").stdout)["other_page"] is None


def test_what_is_kept_is_bounded_and_believed_only_whole(whole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_scores(whole, read_manifest(whole))
    (kept,) = (whole.parent.parent / "cache" / "scores").iterdir()
    content = kept.read_bytes()
    kept.write_bytes(content[:-20] + bytes(20))
    check_scores(whole, read_manifest(whole))
    assert kept.read_bytes() == content
    for other in (b"[" * 100_000, b"{}"):
        kept.write_bytes(zstandard.compress(other))
        check_scores(whole, read_manifest(whole))
        assert kept.read_bytes() == content
    (whole / "note.log").write_text("another raw file\n")
    manifest = read_manifest(whole)
    manifest.files["note.log"] = hash_file(whole / "note.log")
    monkeypatch.setattr(score_check, "_MOST_BYTES", kept.stat().st_size * 3 // 2)
    check_scores(whole, manifest)
    (other,) = kept.parent.iterdir()
    assert other.name != kept.name


def test_import_refuses_scores_that_the_raw_files_do_not_give(whole: Path, tmp_path: Path) -> None:
    number(whole)
    bundle, results = export(whole), tmp_path / "imported"
    done = ask("bundle", "import", bundle, f"--results={results}")
    assert done.exit_code == 1 and f"{bundle}: {CHANGED[number]}" in done.stderr and not [*results.iterdir()]
    done = ask("bundle", "import", bundle, f"--results={results}", "--no-rescore")
    assert done.exit_code == 0 and done.stderr.endswith(f"{whole.name}: scores NOT recomputed: --no-rescore\n")
    assert (results / whole.name / SCORES).read_bytes() == (whole / SCORES).read_bytes()


def test_judged_pictures_are_not_recomputed_and_need_a_recording(whole: Path) -> None:
    (whole / "quality.csv").write_text("t,phase,height,frame,ssim,vmaf\n1.0,solo,720,10,0.5,40.0\n")
    reseal(whole, "quality.csv")
    says = "quality.csv NOT recomputed (`sojourn quality RUN`)"
    assert ask("bundle", "verify", whole, "--no-rescore").stdout.splitlines()[-2] == says
    assert json.loads(ask("bundle", "verify", whole, "--no-rescore", "--json").stdout)["pictures"] == says
    prune(whole, "screen.mp4")
    with refusal(NotComputedError, "pruned", "screen.mp4"):  # it had one
        check_scores(whole, read_manifest(whole))
    manifest = read_manifest(whole)
    manifest.pruned.clear()
    with refusal(ScoreError, "altered", whole, "quality.csv", "never had a recording"):
        check_scores(whole, manifest)


def test_judged_speech_needs_a_run_that_spoke(whole: Path) -> None:
    (whole / "speech.csv").write_text("t,seconds,phase,listener,segment,delay_ms,mos_lqo,spoken\n")
    (whole / "sound.flac").write_bytes(b"")
    for name in ("sound.flac", "speech.csv"):
        reseal(whole, name)
    with refusal(ScoreError, "altered", whole, "speech.csv", "nobody spoke in the run"):
        check_scores(whole, read_manifest(whole))


def test_scores_that_are_none_are_refused(whole: Path) -> None:
    for text in ("[]", "{", "[" * 100_000):
        (whole / SCORES).write_text(text)
        reseal(whole, SCORES)
        with refusal(ScoreError, "missing", SCORES):
            check_scores(whole, read_manifest(whole))


def test_a_run_is_signed_where_it_is_made(whole: Path, keys: Path, tmp_path: Path) -> None:
    signers = keys / "signers"
    assert not check(whole).key and verdict(whole, f"--signers={signers}").exit_code == 4
    signed = again(whole, tmp_path, sign=str(keys / "lab"))
    assert "sign" not in json.loads((signed / "options.json").read_text())
    assert (signed / SIGNATURE).stat().st_mode & 0o077 == 0
    assert "signed by me@lab.example" in ask("bundle", "verify", signed, f"--signers={signers}").stdout
    assert verdict(signed, f"--signers={signers}").exit_code == 1
    assert ask("report", signed).exit_code == 0 and check(signed, signers=signers).signer  # the same page again
    number(signed)
    done = verdict(signed, f"--signers={signers}", "--no-rescore")
    assert done.exit_code == 4 and f"{signed}: manifest.json: differs from what me@lab.example signed" in done.stderr
    done = ask("bundle", "verify", signed, "--no-rescore")
    assert "not signed in its present state: changed after it was signed" in done.stdout


def test_a_bundle_is_signed_by_the_key_of_the_defaults(
    whole: Path, keys: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sojourn.toml").write_text('sign = "keys/lab"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOJOURN_DEFAULTS", raising=False)  # `make test` has no defaults
    done = ask("bundle", "export", whole, "-o", tmp_path / "run.tar.zst")
    assert done.exit_code == 1 and "sign: only you name" in done.stderr  # the folder may be a stranger's
    monkeypatch.setenv("SOJOURN_DEFAULTS", str(tmp_path / "sojourn.toml"))
    assert ask("bundle", "export", whole, "-o", tmp_path / "run.tar.zst").exit_code == 0
    assert (
        ask(
            "bundle",
            "import",
            tmp_path / "run.tar.zst",
            f"--results={tmp_path / 'new'}",
            f"--signers={keys / 'signers'}",
        ).exit_code
        == 0
    )
    number(whole)
    (tmp_path / "sojourn.toml").write_text('sign = "keys/none"\n')
    done = ask("bundle", "export", whole, "-o", tmp_path / "other.tar.zst")
    assert done.exit_code == 1 and f"--sign {tmp_path / 'keys/none'}: no such file" in done.stderr


def test_a_key_that_cannot_sign_is_refused_before_anything_starts(tmp_path: Path, keys: Path) -> None:
    (key := keys / "lab").write_text("no key")
    with refusal(SignatureError, "bad-key", f"--sign {key}: "):
        perform("video-harm", parse(results=str(tmp_path / "results"), sign=str(key)), [], sys.stderr)
    assert not (tmp_path / "results").exists()
