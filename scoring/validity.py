# SPDX-License-Identifier: Apache-2.0
"""The gates that a run must pass before its numbers mean anything. A run that fails one is void."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator, BaseModel, ConfigDict

from sojourn.bottleneck.qdiscs import parse_qdisc
from sojourn.hardware.machine.messages import printable
from sojourn.scoring.packets.pcapng import ECT0, ECT1, NOT_ECT
from sojourn.traffic.contender import ACCURATE_ECN, CLASSIC_ECN, CONTENDERS

MTU = 1500
_SIZES = ("flows", "limit")  # the parameters that tc shows in packets, flows or bytes as they were given
CODEPOINTS = {"not-ect": NOT_ECT, "ect0": ECT0, "ect1": ECT1}


class Limits(BaseModel):
    """What is still good enough; every figure can be set."""

    model_config = ConfigDict(frozen=True)
    missing_share: float = 0.005  # of the recorder's frames
    unread_share: float = 0.05  # of recorded frames in which no strip could be read
    stall_ms: float = 20.0  # a second with a longer host stall is a bad second
    stall_share: float = 0.02  # bad seconds allowed
    stall_worst_ms: float = 200.0  # no second may be worse than this
    suspended_ms: float = 10.0  # by the clocks that count a suspended host's time and that do not
    clock_step_ms: float = 10.0  # of the wall clock in a second; one that is slewed moves 0.5 ms
    jitter_ms: float = 2.0  # P99 of the unshaped probe above the RTT asked for
    limited_share: float = 0.05  # of a contender's phase, in which something else than congestion control held it back
    contender_late_s: float = 5.0  # by which a contender's flow may miss the start or the end of its phase
    codepoint_share: float = 0.99  # of the contender's data packets with the codepoint it should send
    tail_s: float = 1.0  # by which a record may end before the last phase does
    gap_s: float = 5.0  # longest time without a sample inside the timeline
    unshaped_loss: float = 0.01  # of the probes beside the bottleneck
    tap_clocks_ms: float = 5.0  # by which the clocks of captures on both sides of a box may have drifted apart
    baseline_stall_s: float = 0.5  # a picture that stands this long in the solo baseline disturbs it
    baseline_fps_share: float = 0.95  # of the clip's frame rate, shown in the solo baseline
    call_fps_share: float = 0.84  # of a call: 26 of the camera's 31, with two browsers and two recorders on one machine
    baseline_changes: int = 0  # of the rendition in the solo baseline
    live_changes: int = 2  # the same in each minute of a real site's: its player tries the next rung, and comes back
    live_share: float = 0.8  # of the solo baseline of a real site, in one rendition


SIMULATED = Limits(missing_share=0.0, jitter_ms=0.05, unshaped_loss=0.0)
"""Of a lab in simulated time, where no host is late: what is missing there, or late, is a fault of ours."""


#: What is recorded and what a manifest from elsewhere says may be part of it.
Text = Annotated[str, AfterValidator(printable)]


class Gate(BaseModel):
    """One gate: `measured` and `limit` as text with units; `reason` is one line, empty when `ok`."""

    name: Text
    ok: bool
    measured: Text
    limit: Text
    reason: Text = ""


class Validity(BaseModel):
    """All gates of a run, and whether it is valid: every gate is ok."""

    valid: bool
    gates: list[Gate]

    @property
    def reasons(self) -> list[str]:
        """Why the run is void, a line for each gate that it fails; empty for a valid one."""
        return [gate.reason for gate in self.gates if not gate.ok]

    @classmethod
    def of(cls, gates: Iterable[Gate]) -> Validity:
        """Judge the gates together."""
        judged = list(gates)
        return cls(valid=all(gate.ok for gate in judged), gates=judged)


def gate(name: str, ok: bool, measured: str, limit: str) -> Gate:
    """A gate with its reason written from what was measured and allowed."""
    return Gate(name=name, ok=ok, measured=measured, limit=limit, reason="" if ok else f"{name}: {measured}; {limit}")


def at_most(name: str, value: float | None, limit: float, unit: str, scale: float = 1.0) -> Gate:
    """A figure that must exist and not pass `limit`; both are shown times `scale` in `unit`."""
    measured = "not recorded" if value is None else f"{value * scale:.3g} {unit}"
    return gate(name, value is not None and value <= limit, measured, f"at most {limit * scale:.3g} {unit}")


def jitter(name: str, added_ms: float | None, limits: Limits) -> Gate:
    """What the lab adds to the round trip that was asked for: a path that is too short is no better than a long one."""
    measured = "not recorded" if added_ms is None else f"{added_ms:.3g} ms"
    ok = added_ms is not None and abs(added_ms) <= limits.jitter_ms
    return gate(name, ok, measured, f"at most {limits.jitter_ms:g} ms above or below the path's")


def recorder(screen: Mapping[str, Any] | None, limits: Limits, who: str = "") -> Gate:
    """Frames that the recorder missed, from screen.json; `who` is put before the gate's name."""
    share = screen["missing"] / screen["expected"] if screen and screen["expected"] else None
    return at_most(f"{who}recorder frames missing", share, limits.missing_share, "%", 100)


def every_frame(times: Sequence[float], fps: float, who: str = "") -> Gate:
    """In simulated time every frame that a recorder of `fps` frames/s should have is there; `times` in s."""
    gaps = np.diff(np.asarray(times, dtype=np.float64))
    missing = int(np.maximum(np.round(gaps * fps) - 1, 0).sum())
    return gate(f"{who}every frame recorded", bool(gaps.size) and not missing, f"{missing} missing of {fps:g} a second",
                "none missing")  # fmt: skip


def forwards(records: Mapping[str, npt.ArrayLike]) -> Gate:
    """Simulated time goes only forwards: in none of the `records`, times in the order written, does it step back."""
    arrays = {name: np.asarray(times) for name, times in records.items()}
    odd = [f"{name} is empty" for name, times in arrays.items() if not times.size]
    odd += [name for name, times in arrays.items() if np.any(times[1:] < times[:-1])]
    measured = ", ".join(odd) or f"in {len(arrays)} records"
    return gate("time goes forwards", bool(arrays) and not odd, measured, "no step back in any record")


def host_stalls(stalls_ms: Sequence[float], limits: Limits) -> Gate:
    """Few seconds may hold a host stall over the limit, and none a very long one.

    A watcher of ordinary priority is late now and then on a host that works; what would spoil a run is
    lateness that lasts or that a viewer could see.
    """
    limit = (
        f"over {limits.stall_ms:g} ms in at most {limits.stall_share:.0%} of seconds, "
        f"never over {limits.stall_worst_ms:g} ms"
    )
    if not stalls_ms:
        return gate("host stalls", False, "not recorded", limit)
    bad, worst = sum(s > limits.stall_ms for s in stalls_ms), max(stalls_ms)
    ok = bad <= limits.stall_share * len(stalls_ms) and worst <= limits.stall_worst_ms
    return gate("host stalls", ok, f"{bad} of {len(stalls_ms)} seconds, worst {worst:.1f} ms", limit)


def host_awake(samples: Sequence[Mapping[str, Any]], limits: Limits) -> list[Gate]:
    """The host was not suspended and nobody set its clock; nothing is told of runs older than these records."""
    slept, steps = ([s[key] for s in samples if key in s] for key in ("suspended_ms", "clock_step_ms"))
    if not slept or not steps:
        return []
    return [
        at_most("host suspended", sum(slept), limits.suspended_ms, "s", 1e-3),
        at_most("wall clock stepped", max(map(abs, steps)), limits.clock_step_ms, "s", 1e-3),
    ]


def covers(name: str, times: npt.ArrayLike | None, need: tuple[float, float], limits: Limits) -> Gate:
    """The `times` of a record's samples must span `need` = (start, end) without a long gap; all in Unix s."""
    limit = f"the whole timeline, no gap over {limits.gap_s:g} s"
    t = np.sort(np.asarray([] if times is None else times, dtype=np.float64))
    if not t.size:
        return gate(f"{name} complete", False, "not recorded or empty", limit)
    late, early = t[0] - need[0], need[1] - t[-1]
    inside = (t[1:] > need[0]) & (t[:-1] < need[1])
    gap = float(np.diff(t)[inside].max(initial=0.0))
    ok = late <= limits.tail_s and early <= limits.tail_s and gap <= limits.gap_s
    measured = f"begins {late:+.1f} s, ends {-early:+.1f} s of it, longest gap {gap:.1f} s"
    return gate(f"{name} complete", bool(ok), measured, limit)


def baseline(
    name: str,
    clip_fps: float | None,
    stalls: int | None,
    fps: float | None,
    mbps: float | None,
    changes: int | None,
    limits: Limits,
    share: float | None = None,
) -> Gate:
    """The victim alone must fare well, else harm is told against a baseline that is itself disturbed.

    `stalls` counts those of `baseline_stall_s` or longer, `fps` frames shown a second, `mbps` the victim's
    goodput, `changes` those of the rendition; None was not recorded and fails. `clip_fps` is None for a live
    picture: it has no strip that would tell stalls and frame rate. `share` is that of the rendition shown longest, of
    players that may change it.
    """
    checks = [
        ("Mbit/s", mbps, mbps is not None and mbps > 0, "goodput"),
        ("changes of rendition", changes, changes is not None and changes <= limits.baseline_changes,
         f"at most {limits.baseline_changes} changes of rendition"),
    ]  # fmt: skip
    if share is not None:
        most = f"at least {limits.live_share:.0%} in one rendition"
        checks.append(("% in one rendition", 100 * share, share >= limits.live_share, most))
    if clip_fps is not None:
        least = limits.baseline_fps_share * clip_fps
        checks += [
            ("stalls", stalls, stalls == 0, f"no stall of {limits.baseline_stall_s:g} s"),
            ("frames/s", fps, fps is not None and fps >= least, f"at least {least:.4g} frames/s"),
        ]
    measured = [f"{unit} not recorded" if value is None else f"{value:.3g} {unit}" for unit, value, _, _ in checks]
    judged = gate(
        name, all(ok for _, _, ok, _ in checks), ", ".join(measured), ", ".join(limit for *_, limit in checks)
    )
    bad = ", ".join(text for text, (_, _, ok, _) in zip(measured, checks, strict=True) if not ok)
    return judged.model_copy(update={"reason": f"{name}: the baseline is disturbed: {bad}"}) if bad else judged


def contender_throughout(
    phase: str, span: tuple[float, float] | None, need: tuple[float, float], limits: Limits
) -> Gate:
    """The contender's flow must last from the start of its phase to the end; both (start, end) in Unix s."""
    name, most = f"contender throughout ({phase})", limits.contender_late_s
    limit = f"at most {most:g} s less than the phase at either end"
    if span is None:
        return gate(name, False, "not recorded", limit)
    late, early = span[0] - need[0], need[1] - span[1]
    return gate(name, max(late, early) <= most, f"begins {late:+.1f} s, ends {-early:+.1f} s of it", limit)


def verified_at_end(verdict: bool | str) -> Gate:
    """The router's queues, read back once more when the run was over: true, or false, or what differed."""
    measured = verdict if isinstance(verdict, str) else "equal" if verdict else "different"
    return gate("router read back at the end", verdict is True, measured, "as it was set up")


def capture_drops(name: str, dropped: int | None) -> Gate:
    """Packets that the capture lost; a capture that left no count is not trusted."""
    measured = "no count" if dropped is None else f"{dropped} packets"
    return gate(f"{name} capture drops", dropped == 0, measured, "0 packets")


def both_ways(name: str, down: int, up: int) -> Gate:
    """A capture must hold packets to the near side and from it: each flow has an answer."""
    return gate(f"{name} capture both ways", down > 0 and up > 0, f"{down} packets down, {up} up", "packets of both")


def damaged(name: str, reason: str) -> Gate:
    """The failed gate of a file that cannot be read."""
    return gate(f"{name} whole", False, reason, "a file that can be read")


def offloads(largest: int) -> Gate:
    """No captured packet may be larger than the link carries: segmentation offload would hide the queue."""
    return gate("offloads off", largest <= MTU, f"largest IP packet {largest} bytes", f"at most {MTU} bytes")


def tap_clocks(clocks: Sequence[Mapping[str, Mapping[str, float]]], limits: Limits) -> Gate:
    """The clocks of both captures kept together: a drift would pass for a queue, an offset that stays does not.

    `told` are what the clock of each was ahead of ours, `seconds` give or take `error`, at the start and at the end.
    """
    name, limit = "clocks of both captures", f"drifted by at most {limits.tap_clocks_ms:g} ms, error included"
    if len(clocks) < 2:
        return gate(name, False, "not measured at start and end", limit)
    apart = [each["server"]["seconds"] - each["client"]["seconds"] for each in clocks]
    error = 1e3 * sum(clock["error"] for each in clocks for clock in (each["client"], each["server"]))
    drift = 1e3 * (max(apart) - min(apart))
    measured = f"drifted by {drift:.2f} ms, give or take {error:.2f} ms"
    return gate(name, drift + error <= limits.tap_clocks_ms, measured, limit)


def never_limited(phase: str, samples: Iterable[Mapping[str, Any]], limits: Limits) -> Gate:
    """Nothing but its congestion control may hold a contender back: no lack of data, no buffer or window of the hosts.

    `samples` are its socket's in order of time (ss.jsonl). How full the bottleneck is proves nothing: a queue that
    makes CUBIC back off early stays below its rate beside a video that needs no more.
    """
    sampled = [sample for sample in samples if "busy_ms" in sample]
    name = f"contender never limited ({phase})"
    limit = f"in at most {limits.limited_share:.0%} of the time by anything but its congestion control"
    if len(sampled) < 2 or sampled[0]["t"] >= sampled[-1]["t"]:
        return gate(name, False, "its socket was not sampled", limit)
    first, last = sampled[0], sampled[-1]
    grown = {key: (last[key] - first[key]) / 1e3 for key in ("busy_ms", "rwnd_limited_ms", "sndbuf_limited_ms")}
    spent = last["t"] - first["t"]
    held_back = max(spent - grown["busy_ms"] + grown["rwnd_limited_ms"] + grown["sndbuf_limited_ms"], 0.0) / spent
    # Runs of long ago were not asked for it. BBR calls itself so while it probes the RTT, with data waiting.
    told = [sample for sample in sampled if "app_limited" in sample]
    starved = sum(sample["app_limited"] and not sample.get("notsent") for sample in told)
    measured = f"{held_back:.1%}" + (f", app-limited in {starved} of {len(told)} samples" if told else "")
    # One sample alone proves no share.
    ok = held_back <= limits.limited_share and starved <= max(1, limits.limited_share * len(told))
    return gate(name, ok, measured, limit)


def contender_proven(
    phase: str, contender: str, flow: Mapping[str, Any] | None, ccs: set[str], qdisc: str | None, limits: Limits
) -> Gate:
    """The contender must be what its name says, by its packets and by what `ss` saw.

    `flow` has the columns of `sojourn.scoring.packets.per_flow.flow_table`: accecn_syn and codepoints as sent, ce
    behind the bottleneck, sce and esce as `scores.ContenderFlow` has them. By the `tcp_ecn`, `ect1` and `sce` of
    `contender`, a name of CONTENDERS: accurate ECN has an AccECN SYN, ECT(1) (Prague) or ECT(0) on data, CE where the
    queue is known to mark; classic ECN has ECT(0), and with SCE marks and their echoes where the queue makes them;
    none Not-ECT. `ccs` are the congestion controls that `ss` named.
    """
    name, asked = f"contender proven ({phase})", CONTENDERS[contender]
    if flow is None or not flow["data_packets"]:
        return gate(name, False, "no packets of it in the captures", f"{contender} data")
    sent = flow["data_packets"]
    ect1, ect0, not_ect = flow["ect1"] / sent, flow["ect0"] / sent, flow["not_ect"] / sent
    measured = f"ECT(1) {ect1:.1%}, ECT(0) {ect0:.1%}, Not-ECT {not_ect:.1%}, CE {flow['ce']}"
    measured += f", AccECN SYN {'yes' if flow['accecn_syn'] else 'no'}, ss {'/'.join(sorted(ccs)) or 'silent'}"
    # Linux sends retransmissions as Not-ECT, whatever the flow negotiated.
    share = limits.codepoint_share * (1 - flow["resent"] / sent)
    queue = parse_qdisc(qdisc) if qdisc is not None else None
    if asked.tcp_ecn == ACCURATE_ECN:
        marked = queue is not None and queue.marks_ce
        ect, as_asked = ("ECT(1)", ect1) if asked.ect1 else ("ECT(0)", ect0)
        ok = bool(flow["accecn_syn"]) and as_asked >= share and (flow["ce"] > 0 or not marked)
        limit = f"AccECN SYN, {ect} on {limits.codepoint_share:.0%} of first sendings{', CE > 0' if marked else ''}"
    elif asked.tcp_ecn == CLASSIC_ECN:
        ok = ect0 >= share and ect1 == 0
        limit = f"ECT(0) on {limits.codepoint_share:.0%} of first sendings, no ECT(1)"
        if asked.sce:
            measured += f", SCE {flow['sce']}, ESCE {flow['esce']}"
        if asked.sce and queue is not None and queue.marks_sce:
            ok, limit = ok and flow["sce"] > 0 and flow["esce"] > 0, f"{limit}, SCE > 0, ESCE > 0"
    else:
        ok, limit = not_ect == 1, "Not-ECT on all data"
    return gate(name, ok and ccs == {asked.cc}, measured, f"{limit}, ss {asked.cc}")


def marked(what: str, end: str, sent: Sequence[int], asked: str, limits: Limits) -> Gate:
    """The packets that an `end` of a call or a probe sent carry the codepoint `asked` before the bottleneck."""
    share = sent.count(CODEPOINTS[asked]) / len(sent) if sent else 0.0
    measured = f"{asked} on {share:.1%} of {len(sent)} packets"
    return gate(f"{what} marked ({end})", share >= limits.codepoint_share, measured, f"{limits.codepoint_share:.0%}")


def call_path(paths: Sequence[Mapping[str, Any] | None], first: Mapping[str, Any]) -> Gate:
    """A live call's picture must come by the transport of its start throughout: the packets are counted by it."""
    ports = ("port", "remotePort", "protocol")  # an address may be learnt later
    others = sum(
        path is None or any(path.get(name) is None or path[name] != first.get(name) for name in ports) for path in paths
    )
    measured = f"{others} of {len(paths)} s by another" if paths else "not recorded"
    return gate("call by one path", bool(paths) and not others, measured, "throughout")


def read_back(dev: str, asked: str, samples: Iterable[Sequence[Mapping[str, Any]]]) -> Gate:
    """In every sample of `tc -s -j qdisc show` the asked kind must stand, with the asked flows and limit.

    All other parameters are compared once, when the router is set up; here it shows that nobody changed it.
    """
    kind, *words = asked.split()
    sizes = {key: int(value) for key, value in pairwise(words) if key in _SIZES and value.isdigit()}
    count, wrong = 0, ""
    for qdiscs in samples:
        count += 1
        # A shaper may hold a second queue of the same kind, for the probes beside it.
        found = [q.get("options", {}) for q in qdiscs if q.get("kind") == kind]
        if not any(all(options.get(key, value) == value for key, value in sizes.items()) for options in found):
            shown = [{key: options.get(key) for key in sizes} for options in found]
            others = ", ".join(str(q.get("kind")) for q in qdiscs) or "nothing"
            wrong = wrong or (f"{kind} {shown}" if found else f"no {kind} among {others}")
    measured = wrong or (f"equal in {count} samples" if count else "not sampled")
    return gate(f"qdisc of {dev}", not wrong and count > 0, measured, asked)
