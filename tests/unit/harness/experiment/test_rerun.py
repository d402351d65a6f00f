# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import pytest

from sojourn.harness.experiment.rerun import compared, unlike
from sojourn.harness.options.model import Options
from sojourn.harness.options.record import restored
from sojourn.harness.options.rules import parse_options
from sojourn.harness.store.manifest import FileEntry
from tests.unit.harness.options.refusals import refused


def parse(**given: Any) -> Options:
    named = {name.replace("_", "-"): value for name, value in given.items()}
    return parse_options(named)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"service": "o2tv", "qdisc": "dualpi2", "qdisc_up": "pfifo limit 50", "rate_up": "1mbit"},
        {"service": "call", "call_cc": "scream"},
        {"service": "call", "call_ecn": "ect1", "call_bitrate": "1790kbit", "timeline": "published"},
        {"timeline": "solo:5,bbr:10", "seed": "42", "repeat": "5", "jitter_gate": "1ms"},
        {"qdisc": "red limit 400000 min 30000 max 90000 avpkt 1000 ecn", "rtt": "80ms", "origin_protocol": "h3"},
    ],
)
def test_options_come_back_from_the_evidence(given: dict[str, Any]) -> None:
    options = parse(**given)
    assert restored(json.loads(json.dumps(options.record()))) == options


def test_a_gcc_call_is_recorded_as_before_there_was_another() -> None:
    record = parse(service="call").record()
    assert "call_cc" not in record and parse(service="call", call_cc="scream").record()["call_cc"] == "scream"
    assert restored({**record, "call_cc": "gcc"}) == restored(record) == parse(service="call")


def test_what_is_kept_of_a_run_is_in_no_record_so_that_earlier_runs_stay_repeatable() -> None:
    record = parse(video="retain-on-failure").record()
    assert "video" not in record and restored(record) == parse()


def test_options_of_another_version_are_refused() -> None:
    record = parse().record()
    with refused("rtt_us", "other-version", "rtt_weeks"):
        restored({("rtt_weeks" if name == "rtt_us" else name): value for name, value in record.items()})


def test_files_are_told_apart_by_their_hashes() -> None:
    def entry(digit: str) -> FileEntry:
        return FileEntry(sha256=digit * 64, size=1)

    first = {"a": entry("1"), "b": entry("2"), "gone": entry("3"), "report.html": entry("4")}
    second = {"a": entry("1"), "b": entry("5"), "options.json": entry("6")}
    told = compared(first, second)
    assert (told.same, told.other, told.missing) == (("a",), ("b",), ("gone",))


def test_what_decides_the_bytes_is_named() -> None:
    assert unlike({"guest": "a", "irtt": "1"}, {"guest": "b", "irtt": "2"}) == ["guest: a, now b"]
    assert unlike({}, {"processor": "x"}) == ["processor: unknown, now x"]


def test_a_processor_that_no_program_saw_determines_nothing() -> None:
    def unlike_with(first: str, second: str) -> list[str]:
        return unlike({"processor": "x", "guest processor": first}, {"processor": "y", "guest processor": second})

    assert unlike_with("x86-64-v3", "x86-64-v3") == []
    assert unlike_with("the host's", "the host's") == ["processor: x, now y"]
    assert len(unlike_with("x86-64-v3", "the host's")) == 2
