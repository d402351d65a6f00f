# SPDX-License-Identifier: Apache-2.0
"""Each gate lets a good run pass and names what is wrong with a bad one."""

from __future__ import annotations

import pytest

from scoring import validity
from scoring.validity import Limits, Validity

LIMITS = Limits()
PRAGUE = {
    "data_packets": 1000,
    "resent": 0,
    "ect1": 1000,
    "ect0": 0,
    "not_ect": 0,
    "ce": 40,
    "accecn_syn": True,
}


def test_one_failed_gate_voids_the_run() -> None:
    good = validity.capture_drops("client", 0)
    bad = validity.capture_drops("client", 3)
    assert Validity.of([good]).valid and not Validity.of([good, bad]).valid
    assert bad.reason == "client capture drops: 3 packets; 0 packets" and good.reason == ""
    assert not validity.capture_drops("client", None).ok


@pytest.mark.parametrize(("missing", "ok"), [(0, True), (59, True), (60, True), (61, False)])
def test_recorder(missing: int, ok: bool) -> None:
    assert validity.recorder({"missing": missing, "expected": 12000}, LIMITS).ok is ok


def test_no_record_fails() -> None:
    assert not validity.recorder(None, LIMITS).ok
    assert not validity.host_stalls([], LIMITS).ok
    assert not validity.covers("probe", None, (0, 10), LIMITS).ok
    assert not validity.read_back("lan", "pfifo", []).ok


def test_host_stalls() -> None:
    assert validity.host_stalls([5.0] * 98 + [25.0] * 2, LIMITS).ok
    assert not validity.host_stalls([5.0] * 97 + [25.0] * 3, LIMITS).ok
    assert not validity.host_stalls([5.0] * 99 + [250.0], LIMITS).ok


def test_covers() -> None:
    assert validity.covers("recording", (-5, 140), (0, 140.5), LIMITS).ok
    assert not validity.covers("recording", (-5, 120), (0, 140), LIMITS).ok
    assert not validity.covers("recording", (2, 150), (0, 140), LIMITS).ok


@pytest.mark.parametrize(
    ("change", "qdisc", "ok"),
    [
        ({}, "fq_codel flows 1", True),
        ({"ce": 0}, "fq_codel flows 1", False),
        ({"ce": 0}, "pfifo limit 100", True),
        ({"accecn_syn": False}, "dualpi2", False),
        ({"ect1": 900, "ect0": 100}, "dualpi2", False),
        ({"ect1": 900, "not_ect": 100, "resent": 100}, "dualpi2", True),
        ({"ect1": 900, "not_ect": 100, "resent": 50}, "dualpi2", False),
    ],
)
def test_prague_must_prove_itself(change: dict[str, object], qdisc: str, ok: bool) -> None:
    found = validity.contender_proven("prague", "prague", PRAGUE | change, {"prague"}, qdisc, LIMITS)
    assert found.ok is ok


def test_others_are_not_prague() -> None:
    assert not validity.contender_proven("cubic", "cubic", PRAGUE, {"cubic"}, "dualpi2", LIMITS).ok
    plain = PRAGUE | {"ect1": 0, "not_ect": 1000, "ce": 0, "accecn_syn": False}
    assert validity.contender_proven("c", "cubic-noecn", plain, {"cubic"}, "dualpi2", LIMITS).ok
    assert not validity.contender_proven("c", "cubic-noecn", plain, {"bbr"}, "dualpi2", LIMITS).ok
    assert not validity.contender_proven("d", "dctcp", plain, {"dctcp"}, "dualpi2", LIMITS).ok
    assert not validity.contender_proven("c", "cubic", None, set(), "dualpi2", LIMITS).ok


def test_marks() -> None:
    assert validity.marks("fq_codel flows 1") and validity.marks("pie ecn") and validity.marks("dualpi2")
    assert not any(validity.marks(text) for text in ("fq_codel noecn", "pie", "pfifo limit 10", "red limit 9"))


def test_read_back_sees_another_kind_and_another_size() -> None:
    htb = {"kind": "htb", "options": {}}
    good = [htb, {"kind": "fq_codel", "options": {"flows": 1, "limit": 10240}}]
    assert validity.read_back("lan", "fq_codel flows 1", [good, good]).ok
    assert not validity.read_back("lan", "fq_codel flows 1", [good, [htb]]).ok
    assert not validity.read_back("lan", "fq_codel flows 1024", [good]).ok
    probe = [{"kind": "pfifo", "options": {"limit": 1000}}, {"kind": "pfifo", "options": {"limit": 50}}]
    assert validity.read_back("lan", "pfifo limit 50", [probe]).ok


def test_saturated_and_offloads() -> None:
    assert validity.saturated("cubic", 9.4e6, 10e6, LIMITS).ok
    assert not validity.saturated("cubic", 8.0e6, 10e6, LIMITS).ok
    assert validity.offloads(1500).ok and not validity.offloads(2948).ok
