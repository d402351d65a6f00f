# SPDX-License-Identifier: Apache-2.0
"""What is no run to be made again, and what is no difference between two."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sojourn.apps import SERVICES
from sojourn.apps.options import DRIVERS, RECORDERS, SEGMENTS
from sojourn.bottleneck.qdiscs import KINDS
from sojourn.hardware.machine.errors import Code
from sojourn.hardware.machine.messages import printable
from sojourn.hardware.machine.programs import FLAGS, host_versions
from sojourn.harness.experiment import rerun
from sojourn.harness.experiment.rerun import RerunError, commits, compared, run_to_repeat, scorers, unlike, with_remedy
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import Options
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.options.record import restored, words
from sojourn.harness.options.rules import parse_options
from sojourn.harness.store.integrity import IntegrityError
from sojourn.harness.store.manifest import (
    CRATE,
    LARGEST,
    Bundled,
    FileEntry,
    GitState,
    StoreError,
    hash_file,
    read_manifest,
    write_manifest,
)
from sojourn.harness.store.reasons import Reason
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.files import OPTIONS
from sojourn.scoring.schema.scores import SCORES
from sojourn.traffic.contender import CONTENDERS
from tests.refusals import refusal
from tests.unit.damage import PART, TO, altered, fuzz


def parse(**given: Any) -> Options:
    named = {name.replace("_", "-"): value for name, value in given.items()}
    return parse_options(named)


QUEUES = ["fq_codel flows 1", "dualpi2 target 10ms", "cake bandwidth 9mbit rtt 30ms", "pie ecn", "bfifo limit 50kb",
          "red limit 400000 min 30000 max 90000 avpkt 1000 ecn", *sorted(set(KINDS) - {"red"})]  # fmt: skip
LOADS = ["solo", "cubic*4", "prague+cubic@up*2", "cubic+web*3", "video", "reno+call", *CONTENDERS]
PHASES = st.lists(st.tuples(st.sampled_from(LOADS), st.integers(2, 90) | st.just(7.25)), max_size=6)


@st.composite
def asked(draw: st.DrawFn) -> Options:
    """Any options that can be asked for; as defaults, those without effect on the victim are passed over."""

    def maybe(strategy: st.SearchStrategy[Any]) -> Any:
        return draw(st.none() | strategy)

    service = draw(st.sampled_from(list(SERVICES)))
    # A room's baseline of 5 s ends at the first step.
    steps = draw(st.sampled_from(["", ",1.5s:5mbit,4s:700kbit"])) if service != "room" else ""
    defaults = dict(
        qdisc=draw(st.sampled_from(QUEUES)),
        qdisc_up=maybe(st.sampled_from(QUEUES)),
        rate=f"{draw(st.integers(1, 90))}mbit{steps}",
        loss=maybe(st.floats(0.01, 20).map("{:.5f}%".format)),
        jitter=maybe(st.integers(1, 500).map("{}us".format)),
        bursts=maybe(st.sampled_from(["5ms", "1ms-8ms"])),
        ip_version=maybe(st.sampled_from("46")),
        ladder=maybe(st.sampled_from(["240p:300k,480p:1mbit", "720p:2.5mbit"])),
        segment=maybe(st.sampled_from(SEGMENTS)),
        **draw(st.sampled_from([{}, {"call_cc": "scream"}, {"call_cc": "gcc", "call_ecn": "ect1"}])),
        rate_up=maybe(st.integers(500, 90_000).map("{}kbit".format)),
        rtt=f"{draw(st.integers(1, 200))}ms",
        timeline=maybe(PHASES.map(lambda it: ",".join(f"{who}:{s}" for who, s in [("solo", 5), *it]))),
        origin_cc=draw(st.sampled_from(["bbr", "cubic", "reno"])),
        origin_protocol=draw(st.sampled_from(["h2", "h3"])),
        buffer=maybe(st.floats(2, 120).map(str)),
        call_bitrate=maybe(st.integers(500, 5000).map("{}kbit".format)),
        driver=draw(st.sampled_from(DRIVERS)),
        recorder=draw(st.sampled_from(RECORDERS)),
        jitter_gate=maybe(st.integers(1, 5000).map("{}us".format)),
        seed=str(draw(st.integers(0, 2**32 - 1))),
        repeat=maybe(st.integers(1, 9).map(str)),
        lab=maybe(st.just("sim")),
    )
    named = {name.replace("_", "-"): value for name, value in defaults.items() if value is not None}
    options = parse_options({"service": service}, named)
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
            (made.path / OPTIONS).write_text(json.dumps(parse(**given).record()))
            (made.path / "player.jsonl").write_text("{}\n")
            made.void(*(Reason(code="lab-jitter", text=text) for text in void))
            return made.commit()

    return run


def test_a_valid_run_in_simulated_time_is_taken(make: Make) -> None:
    manifest, options = run_to_repeat(make(seed="7", qdisc="dualpi2"))
    assert (manifest.test, options.seed, str(options.qdisc_down)) == ("video-harm", 7, "dualpi2")


def test_other_runs_are_refused_in_one_line(make: Make, tmp_path: Path) -> None:
    with refusal(RerunError, "invalid-run", "too late"):
        run_to_repeat(make("too late"))
    with refusal(RerunError, "real-time", "virtual"):
        run_to_repeat(make(lab="virtual"))
    with RunStore(tmp_path).create("video-harm", "cell") as left:
        (left.path / "player.jsonl").write_text("{}\n")
    with refusal(RerunError, "unfinished", left.path):
        run_to_repeat(left.path)
    (edited := make()).joinpath("player.jsonl").write_text("[]\n")
    with refusal(IntegrityError, "altered", "player.jsonl: "):
        run_to_repeat(edited)
    with refusal(StoreError, "not-a-run", tmp_path):
        run_to_repeat(tmp_path)
    manifest = read_manifest(masked := make())
    write_manifest(masked, manifest.model_copy(update={"bundle": Bundled(source="0" * 64, anonymised=True)}))
    with refusal(RerunError, "anonymised", masked):
        run_to_repeat(masked)


#: What a stranger would have us do, and values of which each is right somewhere.
HOSTILE = st.sampled_from([
    "/etc/passwd", "/bin/sh", "../../../x", "~/x", "~nobody-of-that-name/x", "\x00", "\n\x1b[31m", "x" * 5000, "vlc",
    "youtub", "solo", "sim", "apu", "virtual", "iptv", "page", "call", "240p", "ect1", "h3", "1e400", "1_000",
    "http://evil.example/", "file:///etc/passwd", "dask://evil.example:8786", "999999999999999999999", True, False, 0,
    -1, 1, 2, 1.0, 20.0, 1e300, float("nan"), float("inf"), 10**30, [], {}, [[]], [["240p", 1]], [[240, 50_000]],
    [{"name": "../../../x", "contender": None, "seconds": 20}], [{"name": "solo", "contender": "solo", "seconds": 20}],
    [{"name": "solo", "contender": None, "seconds": 1}], [{"at_s": 3, "rate_bps": 5}], [{"at_s": True, "rate_bps": 1}],
])  # fmt: skip


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A valid run of many options, and what was asked of it."""
    household = parse(timeline="solo:5,cubic*2+web:9,solo:4", rate="10mbit,3s:5mbit", loss="0.5%", bursts="1ms-8ms",
                      jitter="2ms", ladder="240p:300k,480p:1mbit", seed="7", jitter_gate="1ms", lab="sim")  # fmt: skip
    record = json.loads(json.dumps(household.record()))
    with RunStore(tmp_path_factory.mktemp("results")).create("video-harm", "cell") as made:
        (made.path / OPTIONS).write_text(json.dumps(record))
        return made.commit(), record


def replaced(run: Path, content: bytes) -> None:
    """Put another record into a run, and its hash into the manifest."""
    (run / OPTIONS).write_bytes(content)
    manifest = read_manifest(run)
    files = manifest.files | {OPTIONS: hash_file(run / OPTIONS)}
    write_manifest(run, manifest.model_copy(update={"files": files}))


def tried(run: Path, record: Any) -> Options | str:
    """Options of a run whose record was changed along with its manifest, or why it is refused."""
    replaced(run, json.dumps(record).encode())
    try:
        return run_to_repeat(run)[1]
    except RerunError as refused:
        why = str(refused).removeprefix(f"{run}: ")
        assert why != str(refused) and len(why) < 500 and why == printable(why)
        return why


@fuzz
@given(part=PART, field=st.none() | st.integers(0, 99), to=st.one_of(HOSTILE, TO))
def test_a_changed_record_is_refused_or_says_what_the_command_line_could(
    own: tuple[Path, dict[str, Any]], part: list[int], field: int | None, to: Any
) -> None:
    run, record = own
    changed = altered(record, part if field is None else [field], to)
    if isinstance(got := tried(run, changed), Options):
        assert json.loads(json.dumps(got.record())) == changed
        again = [f"--{name}={text}" for name, text in words(changed).items()]
        assert again and parse_options({}, words(changed)).replace(results=got.results) == got


@pytest.mark.parametrize(
    ("changed", "option", "code"),
    [
        ({"driver": "x"}, "driver", "unknown-value"),
        ({"recorder": "../x"}, "recorder", "unknown-value"),
        ({"service": "nonesuch"}, "service", "unknown-value"),
        ({"service": "all"}, "service", "unsupported"),
        ({"ladder": [["../../x", 300000]]}, "ladder", "altered-record"),
        ({"ladder": [[999, 300000]]}, "ladder", "invalid-value"),
        ({"live": True, "url": "https://evil.example/"}, "live", "conflict"),
        ({"live": 1}, "live", "altered-record"),
        ({"browser": "/any/path"}, "browser", "altered-record"),
        ({"browser": "/bin/sh"}, "browser", "altered-record"),
        ({"credentials": "/etc/passwd"}, "credentials", "altered-record"),
        ({"profile": "/root"}, "profile", "altered-record"),
        ({"qdisc_down": "fq_codl"}, "qdisc_down", "altered-record"),
        ({"phases": [{"name": "../../../x", "contender": None, "seconds": 20.0}]}, "phases", "altered-record"),
        ({"phases": [{"name": "solo", "contender": None, "seconds": 1}]}, "timeline", "invalid-value"),
        ({"phases": [{"name": "bad", "contender": "bad", "seconds": 5}]}, "timeline", "invalid-value"),
        ({"phases": [{"name": "solo", "contender": None, "seconds": True}]}, "phases", "altered-record"),
        ({"seed": True}, "seed", "altered-record"),
        ({"seed": 1.0}, "seed", "altered-record"),
        ({"lab": "nowhere"}, "lab", "altered-record"),
        ({"weeks": 3}, "weeks", "other-version"),
    ],
)
def test_what_no_command_line_says_is_refused_by_name(
    own: tuple[Path, dict[str, Any]], changed: dict[str, Any], option: str, code: Code
) -> None:
    run, record = own
    replaced(run, json.dumps(record | changed).encode())
    with refusal(RerunError, code, f"{run}: options.json: ") as refused:
        run_to_repeat(run)
    why = refused.value.__cause__
    assert isinstance(why, OptionsError) and (why.option, why.code) == (option, code)


def test_a_lab_file_of_a_simulated_runs_record_is_never_read(own: tuple[Path, dict[str, Any]]) -> None:
    assert isinstance(tried(own[0], own[1] | {"lab_file": "/etc/passwd"}), Options)


@pytest.mark.parametrize("content", [b"", b"[1]", b"{", b"[" * 100_000, b"\xff", b" " * (LARGEST + 1)])
def test_a_record_that_is_none_is_refused(own: tuple[Path, dict[str, Any]], content: bytes) -> None:
    replaced(own[0], content)
    with refusal(RerunError, "damaged", "options.json: "):
        run_to_repeat(own[0])


@pytest.fixture
def strangers(make: Make, tmp_path: Path) -> Callable[[str, Path], Path]:
    """Makes a run whose record names a file, as whoever writes a manifest can: it is no bundle by that."""
    (film := tmp_path / "film.mp4").touch()

    def run(field: str, path: Path) -> Path:
        run = make(service="page", url=str(film)) if field == "url" else make()
        replaced(run, json.dumps(json.loads((run / OPTIONS).read_text()) | {field: str(path)}).encode())
        return run

    return run


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (file := tmp_path / "yours" / "linux-7.2.tar.xz").parent.mkdir()
    file.touch(0o700)
    return file


@pytest.mark.parametrize("bundled", [True, False])
@pytest.mark.parametrize("field", ["clip", "script", "kernel_source", "url"])
def test_a_path_in_a_record_counts_only_when_it_is_repeated(
    strangers: Callable[[str, Path], Path], source: Path, field: str, bundled: bool
) -> None:
    """Even one that is here: what it holds is not what was shown, and nobody but its owner may have it shown."""
    run, name = strangers(field, source), field.replace("_", "-")
    if bundled:
        bundle = Bundled(source="0" * 64, anonymised=False)
        write_manifest(run, read_manifest(run).model_copy(update={"bundle": bundle}))
    with pytest.raises(RerunError) as refused:
        run_to_repeat(run)
    assert str(refused.value) == (
        f"{run}: was recorded with files that it does not contain; if you trust them, add: --{name}={source}"
    )
    if field == "script":  # no option of this service
        with refusal(RerunError, "altered-record", "options.json: script: ", "youtube", "sim"):
            run_to_repeat(run, {name: source})
    else:
        options = run_to_repeat(run, {name: source})[1]
        assert str(getattr(options, field)) == str(source)
    with refusal(RerunError, "no-effect", "--url" if field == "clip" else "--clip"):
        run_to_repeat(run, {name: source, "url" if field == "clip" else "clip": source})


@pytest.mark.parametrize("where", ["in the run", "next to it", "by a link"])
def test_nothing_that_came_with_a_run_is_read_or_built(
    strangers: Callable[[str, Path], Path], source: Path, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = strangers("kernel_source", source)
    inside = run / "linux.tar.xz" if where == "in the run" else run.parent / "linux.tar.xz"
    (inside if where != "in the run" else inside.with_suffix(".new")).touch()
    monkeypatch.chdir(run.parent)
    named = Path(inside.name) if where == "next to it" else inside
    if where == "by a link":
        (named := tmp_path / "yours" / "link").symlink_to(inside)
    with refusal(RerunError, "untrusted-file", "--kernel-source: ", run.parent):
        run_to_repeat(run, {"kernel-source": named})


@pytest.mark.parametrize("field", ["browser", "credentials", "profile"])
def test_a_program_or_account_in_a_record_is_refused_by_name(
    strangers: Callable[[str, Path], Path], source: Path, field: str
) -> None:
    with refusal(RerunError, "altered-record", f"options.json: {field}: ", "youtube"):
        run_to_repeat(strangers(field, source))


def test_a_record_names_no_cluster(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """By which the machine here would not be looked at either."""
    run = make(engine="dask+unsafe://stranger.example:8786")
    asked: list[Options] = []

    def perform(test: str, options: Options, *_: Any) -> Any:
        asked.append(options)
        raise RerunError("as far as it goes")

    monkeypatch.setattr(rerun, "perform", perform)
    with pytest.raises(RerunError, match="as far"):
        rerun.rerun(run, tmp_path, sys.stderr)
    assert asked[0].engine == LOCAL


def test_what_is_not_recorded_is_no_difference() -> None:
    def entry(digit: str) -> FileEntry:
        return FileEntry(sha256=digit * 64, size=1)

    first = {"a": entry("1"), CRATE: entry("2")}
    files = compared(first, {"a": entry("1"), "screen.mp4": entry("3")}, ["screen.mp4"])
    assert (files.same, files.other, files.missing) == (("a",), (), ())


def test_a_processors_abilities_are_told_by_their_difference() -> None:
    assert unlike({FLAGS: "avx avx2"}, {FLAGS: "avx sse4a"}) == [f"{FLAGS}: only then avx2, only now sse4a"]
    assert unlike({FLAGS: "avx"}, {}) == [f"{FLAGS}: known, now unknown"]
    assert {"processor", FLAGS} <= set(host_versions())


def test_other_sources_are_told_with_the_commit_that_has_the_first(make: Make) -> None:
    here = read_manifest(make())
    git = GitState(commit="a" * 40, dirty=False)
    first = here.model_copy(update={"git": git, "versions": {"sources": "1"}})
    second = here.model_copy(update={"git": None, "versions": {"sources": "2"}})
    assert commits(first, second) == [f"commit: {'a' * 12}, now unknown"] and commits(first, first) == []


def test_a_run_of_another_version_names_the_commit_that_can_repeat_it(make: Make) -> None:
    run = make()
    replaced(run, json.dumps(json.loads((run / OPTIONS).read_text()) | {"weeks": 3}).encode())
    git = GitState(commit="a" * 40, dirty=False)
    write_manifest(run, read_manifest(run).model_copy(update={"git": git}))
    with refusal(RerunError, "other-version", "weeks", "a" * 12):
        run_to_repeat(run)


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("kernel build: 1, now 2", "; copy the cache of the machine that executed the run, and set SOJOURN_CACHE to"),
        ("guest: 1, now 2", "; copy the cache of the machine that executed the run, and set SOJOURN_CACHE to the copy"),
        ("commit: 1, now 2", f"; `git checkout {'a' * 12}` and rerun"),
        ("scorer: 2.1, now 2.2", "; run `sojourn rescore RUN` to recompute the first run's scores"),
        ("processor: 1, now 2", ""),
    ],
)
def test_what_is_not_the_same_says_what_to_do(make: Make, line: str, remedy: str) -> None:
    first = read_manifest(make()).model_copy(update={"git": GitState(commit="a" * 40, dirty=False)})
    told = with_remedy(line, first)
    assert told.startswith(line + remedy) and (remedy or told == line)
    odd = first.model_copy(update={"git": GitState(commit="$(reboot)", dirty=False)})
    assert "reboot" not in with_remedy("commit: 1, now 2", odd)


def test_another_scorer_is_named(tmp_path: Path) -> None:
    runs = tmp_path / "first", tmp_path / "second"
    for run, scorer in zip(runs, ("2.1", "2.2"), strict=True):
        run.mkdir()
        (run / SCORES).write_text(json.dumps({"scorer": scorer}))
    assert scorers(*runs) == ["scorer: 2.1, now 2.2"] and scorers(runs[0], runs[0]) == []
