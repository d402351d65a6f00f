# SPDX-License-Identifier: Apache-2.0
"""Web pages through a simulated lab: valid in every queue, repeated by seed, and with a recording's requests."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from sojourn.apps.standins.web.pages import drawn_pages
from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.runs import RunStore
from sojourn.scoring.schema.scores import Scores
from sojourn.scoring.tables import TABLES
from tests.lab.main_job import run_harm
from tests.unit.apps.test_har import har_of, written
from tests.unit.apps.test_warc import warc_of

pytestmark = [pytest.mark.lab, pytest.mark.nightly]

OPTIONS = "--service=web", "--rate=20mbit", "--rtt=20ms", "--seed=1", "--rpm=off", "--recorder=none"


def run(folder: Path, *options: str) -> Path:
    done = run_harm(folder, *OPTIONS, *options)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = RunStore(folder).runs()
    return path


def scored(path: Path) -> Scores:
    """Return the scores of a valid run."""
    scores = load_run(path).scores
    assert scores.validity.valid, scores.validity.reasons
    return scores


@pytest.mark.parametrize(
    ("queue", "origin"),
    [
        ("dualpi2", ("--origin-cc=prague",)),
        ("fq_codel flows 1", ("--origin-protocol=h3",)),
        ("pfifo", ("--origin-protocol=h3", "--origin-cc=bbr3", "--ip-version=6")),
    ],
)
def test_all_phases_have_the_same_pages_in_the_same_order(tmp_path: Path, queue: str, origin: tuple[str, ...]) -> None:
    scores = scored(run(tmp_path, f"--qdisc={queue}", "--timeline=solo:10,cubic:10", *origin))
    pages = {name: [load.page for load in scores.loads if load.phase == name] for name in ("solo", "cubic")}
    assert all(seen == [*range(1, len(seen) + 1)] for seen in pages.values()) and min(map(len, pages.values())) >= 2
    assert all(load.phase and load.fcp_ms and load.fcp_ms < 10_000 for load in scores.loads if load.finished)
    alone, contended = scores.phases
    assert alone.lcp_p50_ms and contended.lcp_p50_ms and contended.lcp_p50_ms > alone.lcp_p50_ms


def test_a_seed_repeats_to_the_byte(tmp_path: Path) -> None:
    paths = [run(tmp_path / name, "--qdisc=fq_codel", "--timeline=solo:8,cubic:6") for name in "ab"]
    for name in ("player.jsonl", "scores.json", "client.pcapng.zst", "server.pcapng.zst", "origin.jsonl"):
        assert paths[0].joinpath(name).read_bytes() == paths[1].joinpath(name).read_bytes(), name
    assert TABLES["loads"].of(paths[0]).height == len(scored(paths[1]).loads) >= 4


def test_a_load_that_its_phase_cuts_off_is_shown(tmp_path: Path) -> None:
    scores = scored(run(tmp_path, "--qdisc=pfifo", "--rate=20mbit,9s:1mbit", "--timeline=solo:9,cubic:6"))
    *_, last = scores.loads
    assert last.phase == "cubic" and not last.finished and last.load_ms is None and 3000 < last.had_ms < 5500
    assert scores.phases[1].page_loads_unfinished and scores.phases[1].load_p95_ms == float("inf")


@pytest.mark.parametrize("form", ["har", "warc"])
def test_the_requests_of_a_recording_come_out(tmp_path: Path, form: str) -> None:
    (page,) = drawn_pages(5, 1)
    file = warc_of(page, tmp_path) if form == "warc" else written(tmp_path, har_of(page, "chromium"))
    path = run(tmp_path / "results", f"--url={file}", "--timeline=solo:10")
    whole = [load for load in scored(path).loads if load.finished]
    assert whole and {load.requests for load in whole} == {len(page.resources)}
    assert {load.bytes for load in whole} == {page.bytes}
    lines = [json.loads(line) for line in (path / "origin.jsonl").read_text().splitlines()]
    requested = Counter((line["request"]["host"], line["size"]) for line in lines if line["status"] == 200)
    visits = max(sum(line["request"]["uri"] == "/p1/0.html" for line in lines), 1)
    # The last visit may be cut off.
    for request, number in Counter((it.host, it.bytes) for it in page.resources).items():
        assert (visits - 1) * number <= requested[request] <= visits * number, request
    assert not requested.keys() - {(it.host, it.bytes) for it in page.resources}
