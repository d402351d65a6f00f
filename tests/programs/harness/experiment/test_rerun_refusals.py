# SPDX-License-Identifier: Apache-2.0
"""What is no run to be made again, and what is no difference between two."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps import SERVICES
from bottleneck.qdiscs import KINDS
from hardware.machine.programs import FLAGS, host_versions
from harness.bundle.archive import BundleError
from harness.bundle.research_object import CRATE
from harness.experiment.options import DRIVERS, ECN_CODEPOINTS, RECORDERS, Options, parse_options, restored
from harness.experiment.rerun import RerunError, asked_of, commits, compared, unlike
from harness.experiment.run import OPTIONS_FILE
from harness.store.manifest import Bundled, FileEntry, GitState, StoreError, read_manifest, write_manifest
from harness.store.runs import RunStore
from traffic.contender import CONTENDERS


def parse(**given: Any) -> Options:
    named = {name.replace("_", "-"): value for name, value in given.items()}
    return parse_options(named, SERVICES)


QUEUES = ["fq_codel flows 1", "dualpi2 target 10ms", "cake bandwidth 9mbit rtt 30ms", "pie ecn", "bfifo limit 50kb",
          "red limit 400000 min 30000 max 90000 avpkt 1000 ecn", *sorted(set(KINDS) - {"red"})]  # fmt: skip
PHASES = st.lists(st.tuples(st.sampled_from(["solo", *CONTENDERS]), st.integers(2, 90)), max_size=6)


@st.composite
def asked(draw: st.DrawFn) -> Options:
    """Any options that can be asked for; as defaults, those without effect on the victim are passed over."""

    def maybe(strategy: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | strategy)

    defaults = dict(
        qdisc=draw(st.sampled_from(QUEUES)),
        qdisc_up=maybe(st.sampled_from(QUEUES)),
        rate=f"{draw(st.integers(1, 90))}mbit",
        rate_up=maybe(st.integers(500, 90_000).map("{}kbit".format)),
        rtt=f"{draw(st.integers(1, 200))}ms",
        timeline=maybe(PHASES.map(lambda it: ",".join(f"{who}:{s}" for who, s in [("solo", 5), *it]))),
        origin_cc=draw(st.sampled_from(["bbr", "cubic", "reno"])),
        origin_protocol=draw(st.sampled_from(["h2", "h3"])),
        buffer=maybe(st.floats(2, 120).map(str)),
        call_bitrate=maybe(st.integers(500, 5000).map("{}kbit".format)),
        driver=draw(st.sampled_from(DRIVERS)),
        recorder=draw(st.sampled_from(RECORDERS)),
        probe_ecn=draw(st.sampled_from(ECN_CODEPOINTS)),
        jitter_gate=maybe(st.integers(1, 5000).map("{}us".format)),
        seed=str(draw(st.integers(0, 2**40))),
        repeat=maybe(st.integers(1, 9).map(str)),
        lab=maybe(st.just("sim")),
    )
    named = {name.replace("_", "-"): value for name, value in defaults.items() if value is not None}
    options = parse_options({"service": draw(st.sampled_from(list(SERVICES)))}, SERVICES, named)
    return options.repetition(draw(st.integers(1, 9)))


@given(asked())
def test_any_options_come_back_from_the_evidence(options: Options) -> None:
    assert restored(json.loads(json.dumps(options.record()))) == options


Make = Callable[..., Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes finished runs that were asked for so."""

    def run(*void: str, **given: str) -> Path:
        with RunStore(tmp_path / "results").create("video-harm", "cell", seed=1) as made:
            (made.path / OPTIONS_FILE).write_text(json.dumps(parse(**given).record()))
            (made.path / "player.jsonl").write_text("{}\n")
            made.void(*void)
            return made.commit()

    return run


def test_a_valid_run_in_simulated_time_is_taken(make: Make) -> None:
    manifest, options = asked_of(make(seed="7", qdisc="dualpi2"))
    assert (manifest.test, options.seed, str(options.qdisc_down)) == ("video-harm", 7, "dualpi2")


def test_other_runs_are_refused_in_one_line(make: Make, tmp_path: Path) -> None:
    with pytest.raises(RerunError, match=r"is void \(too late\): only a valid run can be made again"):
        asked_of(make("too late"))
    with pytest.raises(RerunError, match="was made in the virtual lab: only simulated time gives the same bytes again"):
        asked_of(make(lab="virtual"))
    with RunStore(tmp_path).create("video-harm", "cell") as left:
        pass
    with pytest.raises(RerunError, match=r"is interrupted \(the run was left without a commit\): only a valid run"):
        asked_of(left.path)
    (edited := make()).joinpath("player.jsonl").write_text("[]\n")
    with pytest.raises(BundleError, match=r"player\.jsonl: differs from the manifest"):
        asked_of(edited)
    with pytest.raises(StoreError, match="no run directory"):
        asked_of(tmp_path)
    manifest = read_manifest(masked := make())
    write_manifest(masked, manifest.model_copy(update={"bundle": Bundled(source="0" * 64, anonymised=True)}))
    with pytest.raises(RerunError, match="is anonymised"):
        asked_of(masked)
    (film := tmp_path / "film.mp4").touch()
    others = make(clip=str(film))
    asked_of(others)
    manifest = read_manifest(others)
    write_manifest(others, manifest.model_copy(update={"bundle": Bundled(source="0" * 64, anonymised=False)}))
    with pytest.raises(RerunError, match=f"made with files of another machine: --clip={film}"):
        asked_of(others)


def test_what_is_not_recorded_is_no_difference() -> None:
    def entry(digit: str) -> FileEntry:
        return FileEntry(sha256=digit * 64, size=1)

    first = {"a": entry("1"), CRATE: entry("2")}
    files = compared(first, {"a": entry("1"), "screen.mp4": entry("3")}, ["screen.mp4"])
    assert (files.same, files.other, files.missing) == (("a",), (), ())


def test_a_processors_abilities_are_told_by_their_difference() -> None:
    assert unlike({FLAGS: "avx avx2"}, {FLAGS: "avx sse4a"}) == [f"{FLAGS}: only then avx2, only now sse4a"]
    assert unlike({FLAGS: "avx"}, {}) == [f"{FLAGS}: told, now not told"]
    assert {"processor", FLAGS} <= set(host_versions())


def test_other_sources_are_told_with_the_commit_that_has_the_first(make: Make) -> None:
    here = read_manifest(make())
    git = GitState(commit="a" * 40, dirty=False)
    first = here.model_copy(update={"git": git, "versions": {"sources": "1"}})
    second = here.model_copy(update={"git": None, "versions": {"sources": "2"}})
    assert commits(first, second) == [f"commit: {'a' * 12}, now not told"] and commits(first, first) == []
