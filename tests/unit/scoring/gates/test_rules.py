# SPDX-License-Identifier: Apache-2.0
"""Each gate lets a good run pass and names what is wrong with a bad one."""

from __future__ import annotations

import pytest

from sojourn.scoring.gates.base import covers, gate
from sojourn.scoring.gates.baseline import undisturbed
from sojourn.scoring.gates.calls import call_path
from sojourn.scoring.gates.capture_clocks import probe_clock, router_clock, tap_clocks
from sojourn.scoring.gates.captures import capture_drops, offloads
from sojourn.scoring.gates.contenders import (
    contender_proven,
    contender_throughout,
    never_limited,
    program_proven,
)
from sojourn.scoring.gates.host import host_awake, host_stalls, with_cause
from sojourn.scoring.gates.picture import every_frame, recorder
from sojourn.scoring.gates.router import on_router, read_back, verified_at_end
from sojourn.scoring.gates.simulated_time import forwards
from sojourn.scoring.gates.unshaped import jitter
from sojourn.scoring.validity import SIMULATED, Limits, Validity
from sojourn.traffic.contender import CLASSIC_ECN, CONTENDERS

LIMITS = Limits()
PRAGUE = {
    "data_packets": 1000,
    "resent": 0,
    "ect1": 1000,
    "ect0": 0,
    "not_ect": 0,
    "ce": 40,
    "sce": 0,
    "esce": 0,
    "accecn_syn": True,
}


def test_one_failed_gate_voids_the_run() -> None:
    good = capture_drops("client", 0)
    bad = capture_drops("client", 3)
    assert Validity.of([good]).valid and not Validity.of([good, bad]).valid
    assert bad.reason == "client capture drops: 3 packets; 0 packets" and good.reason == ""
    assert not capture_drops("client", None).ok


@pytest.mark.parametrize(("missing", "ok"), [(0, True), (59, True), (60, True), (61, False)])
def test_recorder(missing: int, ok: bool) -> None:
    assert recorder({"missing": missing, "expected": 12000}, LIMITS).ok is ok


def test_no_record_fails() -> None:
    assert not recorder(None, LIMITS).ok
    assert not host_stalls([], LIMITS).ok
    assert not covers("probe-complete", "probe", None, (0, 10), LIMITS).ok
    assert not read_back("lan", "pfifo", []).ok


def test_host_stalls() -> None:
    assert host_stalls([5.0] * 98 + [25.0] * 2, LIMITS).ok
    assert not host_stalls([5.0] * 97 + [25.0] * 3, LIMITS).ok
    assert not host_stalls([5.0] * 99 + [250.0], LIMITS).ok


@pytest.mark.parametrize(
    ("suspended", "step", "reason"),
    [
        (0.001, 0.5, ""),
        (20_000.0, 0.0, "host suspended: 20 s; at most 0.01 s"),
        (0.0, -3_000.0, "wall clock stepped: 3 s; at most 0.01 s"),
    ],
)
def test_a_suspended_host_or_a_clock_that_was_set_is_told(suspended: float, step: float, reason: str) -> None:
    calm = {"suspended_ms": 0.0, "clock_step_ms": 0.01}
    samples = [calm] * 30 + [{"suspended_ms": suspended, "clock_step_ms": step}] + [calm] * 30
    assert [gate.reason for gate in host_awake(samples, LIMITS) if not gate.ok] == [reason] * bool(reason)
    assert host_awake([{"stall_ms": 1.0}], LIMITS) == []


@pytest.mark.parametrize(
    ("bad", "share", "first"),
    [
        ("solo-baseline", 0.05, "the host was busy: other programs left this run 5% of the processor time"),
        ("recorder-frames-missing", 0.05, "the host was busy: other programs left this run 5%"),
        ("solo-baseline", 0.9, "solo-baseline: 1; 0"),
        ("solo-baseline", None, "solo-baseline: 1; 0"),
        ("host-stalls", None, "the host was busy; run it elsewhere (host-stalls: 1; 0)"),
        ("contender-proven", 0.05, "contender-proven: 1; 0"),
    ],
)
def test_a_busy_host_is_named_first_where_it_made_a_run_invalid(bad: str, share: float | None, first: str) -> None:
    codes = "contender-proven", "recorder-frames-missing", "solo-baseline", "host-stalls"
    gates = [gate(code, code, code != bad, "1", "0") for code in codes]
    judged = with_cause(gates, share, "run it elsewhere", LIMITS)
    assert [it.reason[: len(first)] for it in judged if not it.ok] == [first]
    assert [it for it in judged if it.ok] == [it for it in gates if it.ok]


def test_a_watch_that_is_missing_says_nothing_about_the_host() -> None:
    judged = with_cause([host_stalls([], LIMITS)], None, "run it elsewhere", LIMITS)
    assert [it.reason.startswith("host stalls: not recorded") for it in judged] == [True]


def test_covers() -> None:
    need = (0, 140)
    assert covers("recording-complete", "recording", range(-5, 140), need, LIMITS).ok
    assert not covers("recording-complete", "recording", range(-5, 120), need, LIMITS).ok
    assert not covers("recording-complete", "recording", range(2, 150), need, LIMITS).ok
    assert not covers("recording-complete", "recording", [], need, LIMITS).ok
    # A gap counts only where it touches the timeline.
    assert covers(
        "player-samples-complete", "player", [-60, *range(0, 60, 5), *range(60, 141, 5), 200], need, LIMITS
    ).ok
    stopped = covers("player-samples-complete", "player", [*range(0, 60), *range(66, 141)], need, LIMITS)
    assert not stopped.ok and "longest gap 7.0 s" in stopped.reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"stalls": 1}, "1 stalls"),
        ({"stalls": None}, "stalls not recorded"),
        ({"fps": 28.4}, "28.4 frames/s"),
        ({"mbps": 0.0}, "0 Mbit/s"),
        ({"mbps": None}, "Mbit/s not recorded"),
        ({"changes": 1}, "1 changes of rendition"),
        ({"clip_fps": None, "stalls": None, "fps": None}, ""),
        ({"clip_fps": None, "changes": None}, "changes of rendition not recorded"),
        ({"share": 0.81}, ""),
        ({"share": 0.79}, "79 % in one rendition"),
        ({"in_time": {"% of frames in time": 0.51, "% of sound in time": 0.98}}, ""),
        (
            {"in_time": {"% of frames in time": 0.02, "% of sound in time": None}},
            "2 % of frames in time, % of sound in time not recorded",
        ),
    ],
)
def test_a_disturbed_baseline_is_named(change: dict[str, object], reason: str) -> None:
    good = {"clip_fps": 30, "stalls": 0, "fps": 28.6, "mbps": 2.4, "changes": 0}
    found = undisturbed("solo-baseline", **(good | change), limits=LIMITS)  # type: ignore[arg-type]
    assert found.reason == (f"solo baseline: the baseline is disturbed: {reason}" if reason else "")
    assert found.ok is not bool(reason)


def test_a_contender_lasts_its_phase() -> None:
    assert contender_throughout("p", (10.7, 50.2), (10, 50), LIMITS).ok
    assert not contender_throughout("p", (15.1, 50.2), (10, 50), LIMITS).ok
    assert not contender_throughout("p", (10.7, 44.9), (10, 50), LIMITS).ok
    assert not contender_throughout("p", None, (10, 50), LIMITS).ok


@pytest.mark.parametrize(("found", "ok"), [(True, True), (False, False), ("limit 10 instead of 20", False)])
def test_the_router_is_read_back_at_the_end(found: bool | str, ok: bool) -> None:
    assert verified_at_end(found).ok is ok


@pytest.mark.parametrize(
    ("found", "ok"), [(True, True), ("WARNING: sch_mine.c:42", False), ("its log has no warning", False)]
)
def test_a_routers_kernel_does_not_warn_of_itself(found: bool | str, ok: bool) -> None:
    (judged,) = on_router({"router_kernel": found})
    assert (judged.code, judged.ok, judged.measured) == ("router-kernel", ok, "none" if ok else found)
    assert not list(on_router({}))


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
@pytest.mark.parametrize("name", ["prague", "prague-2020"])
def test_prague_must_prove_itself(name: str, change: dict[str, object], qdisc: str, ok: bool) -> None:
    found = contender_proven("prague", name, PRAGUE | change, {name}, qdisc, LIMITS)
    assert found.ok is ok


@pytest.mark.parametrize("name", ["cubic-accecn", "reno-accecn"])
def test_classic_controls_with_accurate_ecn_send_ect0(name: str) -> None:
    def ok(**change: object) -> bool:
        flow = PRAGUE | {"ect1": 0, "ect0": 1000} | change
        return contender_proven("c", name, flow, {name.removesuffix("-accecn")}, "dualpi2", LIMITS).ok

    assert ok() and not ok(ect0=0, ect1=1000) and not ok(accecn_syn=False) and not ok(ce=0)


def test_others_are_not_prague() -> None:
    assert not contender_proven("cubic", "cubic", PRAGUE, {"cubic"}, "dualpi2", LIMITS).ok
    plain = PRAGUE | {"ect1": 0, "not_ect": 1000, "ce": 0, "accecn_syn": False}
    assert contender_proven("c", "cubic-noecn", plain, {"cubic"}, "dualpi2", LIMITS).ok
    assert not contender_proven("c", "cubic-noecn", plain, {"bbr"}, "dualpi2", LIMITS).ok
    assert contender_proven("b", "bbr", plain, {"bbr"}, "dualpi2", LIMITS).ok
    assert not contender_proven("c", "cubic", None, set(), "dualpi2", LIMITS).ok


@pytest.mark.parametrize("name", [c.name for c in CONTENDERS.values() if c.tcp_ecn == CLASSIC_ECN])
def test_classic_ecn_shows_on_the_wire(name: str) -> None:
    def ok(**change: object) -> bool:
        flow = PRAGUE | {"ect1": 0, "ect0": 1000, "accecn_syn": False} | change
        return contender_proven("c", name, flow, {name}, "dualpi2", LIMITS).ok

    assert ok() and ok(ect0=990, not_ect=10) and ok(ect0=950, not_ect=50, resent=50)
    assert not ok(ect0=950, not_ect=50) and not ok(ect0=0, not_ect=1000) and not ok(ect0=999, ect1=1)


@pytest.mark.parametrize("name", [c.name for c in CONTENDERS.values() if c.sce])
def test_sce_is_proven_by_its_marks_and_their_echoes_where_the_queue_makes_them(name: str) -> None:
    def ok(qdisc: str, **change: object) -> bool:
        flow = PRAGUE | {"ect1": 0, "ect0": 1000, "accecn_syn": False, "sce": 90, "esce": 40} | change
        found = contender_proven("c", name, flow, {name}, qdisc, LIMITS)
        assert f"SCE {flow['sce']}, ESCE {flow['esce']}" in found.measured
        return found.ok

    assert ok("cake sce") and not ok("cake sce", sce=0) and not ok("cnq_codel_af sce-thresh 4", esce=0)
    assert ok("dualpi2", sce=0, esce=0) and ok("cake no-sce", sce=0, esce=0)


@pytest.mark.parametrize("ccs", [set(), {"bbr"}, {"cubic", "bbr"}])
def test_ss_must_have_seen_the_contender_and_no_other(ccs: set[str]) -> None:
    flow = PRAGUE | {"ect1": 0, "ect0": 1000, "accecn_syn": False}
    assert contender_proven("c", "cubic", flow, {"cubic"}, "dualpi2", LIMITS).ok
    assert not contender_proven("c", "cubic", flow, ccs, "dualpi2", LIMITS).ok
    assert not contender_proven("p", "prague", PRAGUE, ccs, "dualpi2", LIMITS).ok


def test_read_back_sees_another_kind_and_another_size() -> None:
    htb = {"kind": "htb", "options": {}}
    good = [htb, {"kind": "fq_codel", "options": {"flows": 1, "limit": 10240}}]
    assert read_back("lan", "fq_codel flows 1", [good, good]).ok
    assert not read_back("lan", "fq_codel flows 1", [good, [htb]]).ok
    assert not read_back("lan", "fq_codel flows 1024", [good]).ok
    probe = [{"kind": "pfifo", "options": {"limit": 1000}}, {"kind": "pfifo", "options": {"limit": 50}}]
    assert read_back("lan", "pfifo limit 50", [probe]).ok


@pytest.mark.parametrize(
    ("busy_ms", "rwnd_limited_ms", "sndbuf_limited_ms", "held_back"),
    [(10_000, 0, 0, "0.0%"), (9_600, 0, 0, "4.0%"), (9_400, 0, 0, "6.0%"), (10_000, 600, 0, "6.0%"),
     (9_800, 200, 200, "6.0%")],
)  # fmt: skip
def test_what_holds_a_contender_back_is_its_congestion_control(
    busy_ms: int, rwnd_limited_ms: int, sndbuf_limited_ms: int, held_back: str
) -> None:
    start = {"t": 50.0, "busy_ms": 700, "rwnd_limited_ms": 100, "sndbuf_limited_ms": 30}
    end = {
        "t": 60.0, "busy_ms": 700 + busy_ms, "rwnd_limited_ms": 100 + rwnd_limited_ms,
        "sndbuf_limited_ms": 30 + sndbuf_limited_ms,
    }  # fmt: skip
    gate = never_limited("cubic", [start, end], LIMITS)
    assert (gate.ok, gate.measured) == (held_back != "6.0%", held_back)


@pytest.mark.parametrize(("starved", "ok"), [(0, True), (1, True), (2, False), (20, False)])
def test_a_writer_that_is_slow_is_found_though_its_data_is_always_out(starved: int, ok: bool) -> None:
    busy = {"rwnd_limited_ms": 0, "sndbuf_limited_ms": 0}
    samples = [{"t": 2.0 * n, "busy_ms": 2000 * n, "app_limited": n < starved, **busy} for n in range(20)]
    gate = never_limited("cubic", samples, LIMITS)
    assert gate.ok is ok and f"app-limited in {starved} of 20 samples" in gate.measured
    assert never_limited("cubic", samples[:10], LIMITS).ok is ok  # of ten one is no share yet
    waiting = [sample | {"notsent": 90_000} for sample in samples]  # as BBR while it probes the RTT
    assert never_limited("bbr", waiting, LIMITS).ok


@pytest.mark.parametrize(
    "samples",
    [[], [{"t": 1.0, "busy_ms": 5}], [{"t": 1.0}, {"t": 9.0}], [{"t": 1.0, "busy_ms": 5}, {"t": 9.0, "busy_ms": 9}]],
)
def test_a_contender_whose_socket_nobody_saw_is_not_trusted(samples: list[dict[str, float]]) -> None:
    assert not never_limited("cubic", samples, LIMITS).ok


def test_a_path_that_is_too_short_is_no_better_than_one_that_is_too_long() -> None:
    judged = {added: jitter("jitter", added, SIMULATED).ok for added in (0.04, -0.04, 1, -20, None)}
    assert judged == {0.04: True, -0.04: True, 1: False, -20: False, None: False}


def test_time_that_nobody_recorded_does_not_go_forwards() -> None:
    assert not forwards({}).ok and not forwards({"a": [1.0, 2.0], "b": []}).ok
    nanoseconds = 1_790_000_000_000_000_000
    assert forwards({"a": [nanoseconds, nanoseconds + 1]}).ok
    assert not forwards({"a": [nanoseconds + 1, nanoseconds]}).ok, "a float cannot tell them apart"


def test_offloads() -> None:
    assert offloads(1500).ok and not offloads(2948).ok


def test_a_path_that_was_not_told_is_another() -> None:
    whole = {"port": 1, "remotePort": 2, "protocol": "udp"}
    assert call_path([whole], whole).ok
    for path, first in ((None, whole), ({}, whole), (whole, {}), ({}, {})):
        assert not call_path([path], first).ok


def test_in_simulated_time_each_frame_of_the_recorder_is_asked_for() -> None:
    times = [n / 60 for n in range(600)]
    assert every_frame(times, 60).ok
    late = every_frame(times[:300] + times[301:], 60, "far end's ")
    assert (late.ok, late.reason) == (False, "far end's every frame recorded: 1 missing of 60 a second; none missing")
    assert not every_frame(times[:1], 60).ok


def test_an_unchanged_screen_is_recorded_twice_a_second() -> None:
    """A recorder of changes, 2 of whose frames are at most half a second apart."""
    times = [0.0, 0.5, 0.533, 0.566, 1.066, 1.566]
    assert every_frame(times, 2).ok
    assert every_frame([*times, 2.566], 2).reason == "every frame recorded: 1 missing of 2 a second; none missing"


def test_simulated_time_never_goes_back() -> None:
    assert forwards({"qdisc.jsonl": [1.0, 1.0, 2.0], "timeline.json": [1.0]}).ok
    back = forwards({"qdisc.jsonl": [1.0, 2.0], "client.pcapng": [5, 4]})
    assert (back.ok, back.reason) == (False, "time goes forwards: client.pcapng; no step back in any record")


def test_simulated_time_allows_less_than_a_host() -> None:
    assert SIMULATED.missing_share == 0 and SIMULATED.jitter_ms == 0.05


def test_clocks_on_both_sides_of_a_box_may_be_apart_but_not_drift() -> None:
    def told(apart_s: float, error_s: float = 0.0) -> dict[str, dict[str, float]]:
        return {"client": {"seconds": 1.0, "error": 0.0}, "server": {"seconds": 1.0 + apart_s, "error": error_s}}

    assert tap_clocks([told(300), told(300.004)], LIMITS).ok
    drifted = tap_clocks([told(0), told(-0.006)], LIMITS)
    assert (drifted.ok, drifted.measured) == (False, "drifted by 6.00 ms, give or take 0.00 ms")
    assert not tap_clocks([told(0, 0.003), told(0, 0.003)], LIMITS).ok, "nobody knows"
    assert not tap_clocks([told(0)], LIMITS).ok and not tap_clocks([], LIMITS).ok


def test_the_clock_of_a_probes_server_may_be_wrong_but_not_drift() -> None:
    offsets = [[{"seconds": 300 + drift, "error": 0.001} for drift in (0, end)] for end in (0.002, -0.004)]
    assert [probe_clock(both, LIMITS).ok for both in offsets] == [True, False]
    assert probe_clock(offsets[1], LIMITS).measured == "drifted by 4.00 ms, give or take 2.00 ms"
    assert not probe_clock(offsets[0][:1], LIMITS).ok


def test_of_a_queue_that_nobody_knows_no_mark_is_demanded() -> None:
    flow = {"data_packets": 9, "ect1": 9, "ect0": 0, "not_ect": 0, "ce": 0, "accecn_syn": True, "resent": 0}
    for queue, ok in ((None, True), ("pfifo", True), ("dualpi2", False)):
        assert contender_proven("prague", "prague", flow, {"prague"}, queue, LIMITS).ok is ok


@pytest.mark.parametrize(
    ("ecn", "ok"), [(None, True), ("ect1", True), ("ect0", False), ("not-ect", False), ("unknown", True)]
)
def test_a_users_program_must_send_the_codepoint_that_its_definition_demands(ecn: str | None, ok: bool) -> None:
    found = program_proven("it", "program_it", PRAGUE, ecn, LIMITS)
    assert found.ok is ok and "ECT(1) 100.0%" in found.measured and "CE" in found.measured
    assert not program_proven("it", "program_it", None, ecn, LIMITS).ok


def test_a_routers_clock_must_be_known_to_the_end() -> None:
    def sampled(*times: float, moved: float = 0) -> bool:
        samples = [{"t": t, "offset_s": moved * n} for n, t in enumerate(times)]
        return router_clock(samples, (100.0, 160.0), LIMITS).ok

    assert sampled(90, 130, 158) and not sampled(90, 130, 158, moved=0.06)
    assert not sampled(90) and not sampled(90, 150) and not sampled(101, 160)
