# SPDX-License-Identifier: Apache-2.0
"""The contenders: active throughout their phase, what their name says, and limited only by congestion control."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sojourn.bottleneck.qdiscs import parse_qdisc
from sojourn.scoring.gates.applications import application_proven
from sojourn.scoring.gates.base import gate, gate_of_runs
from sojourn.scoring.gates.responsiveness import rpm_proven
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.validity import Gate, Limits
from sojourn.traffic.contender import ACCURATE_ECN, CLASSIC_ECN, CONTENDERS
from sojourn.traffic.load import TESTS
from sojourn.traffic.user_program import is_user_program

if TYPE_CHECKING:
    from sojourn.scoring.run_evidence import RunEvidence

ECN_COLUMNS = {"ect1": "ect1", "ect0": "ect0", "not-ect": "not_ect"}
"""Codepoints that a user's program may demand of its data, and the columns that count them."""
ECN_NAMES = {"ect1": "ECT(1)", "ect0": "ECT(0)", "not-ect": "Not-ECT"}
"""The names of the ECN codepoints, by those in records."""


@gate_of_runs("contender-throughout")
def throughout(run: RunEvidence) -> Iterable[Gate]:
    """Judge every contender of every phase."""
    for part in run.contenders:
        yield contender_throughout(part.name, part.lasted, (part.phase.start, part.phase.end), run.limits)


@gate_of_runs("contender-proven")
def proven(run: RunEvidence) -> Iterable[Gate]:
    """Judge bulk flows by packets and sockets, applications by their records."""
    for part in run.contenders:
        if part.load.contender in TESTS:
            yield rpm_proven(part.name, part.record, part.measured, run.before, run.limits)
        elif part.load.bulk:
            row = part.flow.model_dump() if part.flow else None
            if is_user_program(part.load.contender):
                programs = {it["name"]: it for it in run.options.get("programs", ())}
                wanted = programs.get(part.load.contender, {}).get("ecn")
                yield program_proven(part.name, part.load.contender, row, wanted, run.limits)
                continue
            controls = {sample.get("cc") or "" for sample in part.sockets}
            yield contender_proven(part.name, part.load.contender, row, controls, part.qdisc, run.limits)
        else:
            yield application_proven(
                part.name, part.load.contender, part.record, part.measured, (run.before, run.behind),
                run.second_player, run.limits,
            )  # fmt: skip


@gate_of_runs("contender-limited")
def unlimited(run: RunEvidence) -> Iterable[Gate]:
    """Judge the sockets of bulk flows; what limits a user's program is its own business."""
    for part in run.contenders:
        if part.load.one_flow and not is_user_program(part.load.contender):
            yield never_limited(part.name, part.sockets, run.limits)


def contender_throughout(phase: str, span: Window | None, need: Window, limits: Limits) -> Gate:
    """The contender's flow must last for its whole phase; both (start, end) in Unix s."""
    code, name, most = "contender-throughout", f"contender throughout ({phase})", limits.contender_late_s
    limit = f"at most {most:g} s less than the phase at either end"
    if span is None:
        return gate(code, name, False, "not recorded", limit)
    late, early = span[0] - need[0], need[1] - span[1]
    return gate(code, name, max(late, early) <= most, f"begins {late:+.1f} s, ends {-early:+.1f} s of it", limit)


def never_limited(phase: str, samples: Iterable[Mapping[str, Any]], limits: Limits) -> Gate:
    """Only congestion control may limit a contender: not a shortage of data, nor a buffer or window of the hosts.

    `samples` are its socket's in order of time (ss.jsonl). The utilisation of the bottleneck proves nothing: a queue
    that makes CUBIC back off early stays below its rate next to a video that needs no more.
    """
    times = "busy_ms", "rwnd_limited_ms", "sndbuf_limited_ms"
    sampled = [sample for sample in samples if all(key in sample for key in times)]
    code, name = "contender-limited", f"contender never limited ({phase})"
    limit = f"in at most {limits.limited_share:.0%} of the time by anything but its congestion control"
    if len(sampled) < 2 or sampled[0]["t"] >= sampled[-1]["t"]:
        return gate(code, name, False, "its socket was not sampled", limit)
    first, last = sampled[0], sampled[-1]
    grown = {key: (last[key] - first[key]) / 1e3 for key in times}
    spent = last["t"] - first["t"]
    idle_share = max(spent - grown["busy_ms"] + grown["rwnd_limited_ms"] + grown["sndbuf_limited_ms"], 0.0) / spent
    # Old runs did not record it. BBR reports it while it probes the RTT, with data waiting.
    reported = [sample for sample in sampled if "app_limited" in sample]
    starved = sum(sample["app_limited"] and not sample.get("notsent") for sample in reported)
    measured = f"{idle_share:.1%}" + (f", app-limited in {starved} of {len(reported)} samples" if reported else "")
    # A single sample does not prove a share.
    ok = idle_share <= limits.limited_share and starved <= max(1, limits.limited_share * len(reported))
    return gate(code, name, ok, measured, limit)


def program_proven(phase: str, contender: str, flow: Mapping[str, Any] | None, ecn: str | None, limits: Limits) -> Gate:
    """A user's program must have sent data, with the codepoint `ecn` (a name of ECN_COLUMNS; None: any).

    `flow` is as for `contender_proven`.
    """
    code, name = "contender-proven", f"contender proven ({phase})"
    if flow is None or not flow["data_packets"]:
        return gate(code, name, False, "no packets of it in the captures", f"{contender} data")
    shares = {it: flow[column] / flow["data_packets"] for it, column in ECN_COLUMNS.items()}
    measured = ", ".join(f"{ECN_NAMES[it]} {share:.1%}" for it, share in shares.items()) + f", CE {flow['ce']}"
    if ecn is None or ecn not in shares:
        return gate(code, name, True, measured, "data")
    return gate(
        code, name, shares[ecn] >= limits.codepoint_share, measured,
        f"{ECN_NAMES[ecn]} on {limits.codepoint_share:.0%} of data",
    )  # fmt: skip


def contender_proven(
    phase: str, contender: str, flow: Mapping[str, Any] | None, ccs: set[str], qdisc: str | None, limits: Limits
) -> Gate:
    """The contender must be what its name says, according to its packets and `ss`.

    `flow` has the columns of `sojourn.scoring.packets.per_flow.flow_table`: accecn_syn and codepoints as sent, ce
    after the bottleneck, sce and esce as `scores.ContenderFlow` has them. By the `tcp_ecn`, `ect1` and `sce` of
    `contender`, a name of CONTENDERS: accurate ECN has an AccECN SYN, ECT(1) (Prague) or ECT(0) on data, CE where the
    queue is known to mark; classic ECN has ECT(0), and with SCE marks and their echoes where the queue makes them;
    none Not-ECT. `ccs` are the congestion controls that `ss` named.
    """
    code, name, contender_spec = "contender-proven", f"contender proven ({phase})", CONTENDERS[contender]
    if flow is None or not flow["data_packets"]:
        return gate(code, name, False, "no packets of it in the captures", f"{contender} data")
    sent = flow["data_packets"]
    ect1, ect0, not_ect = flow["ect1"] / sent, flow["ect0"] / sent, flow["not_ect"] / sent
    measured = f"ECT(1) {ect1:.1%}, ECT(0) {ect0:.1%}, Not-ECT {not_ect:.1%}, CE {flow['ce']}"
    measured += f", AccECN SYN {'yes' if flow['accecn_syn'] else 'no'}, ss {'/'.join(sorted(ccs)) or 'silent'}"
    # Linux sends retransmissions as Not-ECT, whatever the flow negotiated.
    share = limits.codepoint_share * (1 - flow["resent"] / sent)
    queue = parse_qdisc(qdisc) if qdisc is not None else None
    if contender_spec.tcp_ecn == ACCURATE_ECN:
        marked = queue is not None and queue.marks_ce
        ect, as_requested = ("ECT(1)", ect1) if contender_spec.ect1 else ("ECT(0)", ect0)
        ok = bool(flow["accecn_syn"]) and as_requested >= share and (flow["ce"] > 0 or not marked)
        limit = f"AccECN SYN, {ect} on {limits.codepoint_share:.0%} of first sendings{', CE > 0' if marked else ''}"
    elif contender_spec.tcp_ecn == CLASSIC_ECN:
        ok = ect0 >= share and ect1 == 0
        limit = f"ECT(0) on {limits.codepoint_share:.0%} of first sendings, no ECT(1)"
        if contender_spec.sce:
            measured += f", SCE {flow['sce']}, ESCE {flow['esce']}"
        if contender_spec.sce and queue is not None and queue.marks_sce:
            ok, limit = ok and flow["sce"] > 0 and flow["esce"] > 0, f"{limit}, SCE > 0, ESCE > 0"
    else:
        ok, limit = not_ect == 1, "Not-ECT on all data"
    return gate(code, name, ok and ccs == {contender_spec.cc}, measured, f"{limit}, ss {contender_spec.cc}")
