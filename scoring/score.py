# SPDX-License-Identifier: Apache-2.0
"""Everything that a run's raw files say, as one document: scores.json.

The same files always give the same document: nothing is random, no clock is read, floats are rounded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sojourn.hardware.machine.ip import ip_version
from sojourn.scoring import validity
from sojourn.scoring.baseline import harms, healthy, solo
from sojourn.scoring.contenders import contender_flows
from sojourn.scoring.curves import ccdfs, goodput, over_time, sojourn_times
from sojourn.scoring.evidence import RawFiles, Setting, SideCapture, limits_of
from sojourn.scoring.gates import further_gates
from sojourn.scoring.metrics import Evidence
from sojourn.scoring.packets import latency, per_flow, queue_delay, sojourn
from sojourn.scoring.packets.pcapng import UDP
from sojourn.scoring.picture.shown import freeze_entries, picture, rendition_changes
from sojourn.scoring.schema import records
from sojourn.scoring.schema.scores import Host, Jitter, Metrics, PhaseScores, Scores
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.statistics.harm import PRIMARY
from sojourn.scoring.transport import applications, demand
from sojourn.scoring.validity import Gate, Limits, Validity
from sojourn.traffic.load import CALL
from sojourn.traffic.probes import PROBES, probe_of

_NOT_ECT, _ECT1 = PROBES

_LAB = ("name", "rate_down_bps", "rate_up_bps", "rtt_ms", "qdisc_down", "qdisc_up")


def score_run(run: Path, *, limits: Limits | None = None, settle: float = 20.0) -> Scores:
    """Score the run directory `run` from its raw files.

    `limits` are those of the run's own options when none are given. `settle` (s) is what is left out of a solo
    phase after a contender, see `sojourn.scoring.statistics.harm.solo_windows`. Records that are missing, damaged or
    cut off fail their gate and leave their metrics None. Raises RecordError when timeline.json or lab.json is missing
    or damaged.
    """
    gates: list[Gate] = []
    files, setting = RawFiles(run, gates), Setting.read(run)
    limits = limits or limits_of(files, setting.real_time)
    lab, span, t0 = setting.lab, setting.span, setting.span[0]
    shown = picture(files, files.of_other_end if setting.call else None, setting, limits)

    # The packets: the client side lies behind the downlink bottleneck, the server side before it.
    bulk = (files.optional("bulk.json", records.BULK) or {}).get("flows", [])
    behind = files.capture(setting, "client", limits)
    before = files.capture(setting, "server", limits)
    if behind and before:
        gates.append(validity.offloads(max(behind.largest, before.largest)))

    probes = _probes(files, setting, behind, before, limits)
    calm, jitter = _added_delay(files, setting, limits)
    if setting.box:
        gates.append(validity.tap_clocks(lab.get("tap_clocks", ()), limits))
    told = (line for name in ("ss.jsonl", "ss-up.jsonl") for line in files.lines(name, records.SOCKETS))
    sockets = sorted((line for line in told if line.get("flow")), key=lambda line: line["t"])
    watch = files.host_samples(span, limits) if setting.real_time else []
    queues = [] if setting.box else _router(files, setting, limits)
    if not setting.real_time:
        gates.append(validity.forwards(_clocks(setting, queues, sockets, behind, before)))
    second = files.of_second_video.lines("player.jsonl", records.PLAYER)
    flows, measured, proofs = contender_flows(setting, bulk, sockets, behind, before, second, limits)
    gates += proofs

    evidence = Evidence(
        shown, setting.clip_fps, behind.victim if behind else None, behind.contender if behind else None, probes,
        before.upload if before and setting.uploads else None,
    )  # fmt: skip
    rows, far = _table(evidence, setting, measured, _beside(setting, bulk, second, measured)), []
    if setting.call:
        seen_there = picture(files.of_other_end, files, setting, limits)
        far = _table(Evidence(seen_there, setting.clip_fps, before.back if before else None), setting, measured)
        gates += _call_gates(files, setting, setting.call, behind, before, limits)
    first_solo, windows = solo(setting, shown.segments, settle)
    baseline = Metrics(**evidence.metrics(windows)) if windows else None
    own = queue_delay.delays(_of_side(queues, setting, "lan"))
    waits, wait_curves = (
        sojourn_times(before.all, behind.all, own, lab, measured, windows) if before and behind else ([], [])
    )
    fair = limits.model_copy(update={"baseline_fps_share": limits.call_fps_share}) if setting.call else limits
    gates += [
        healthy(name, part, evidence, not setting.live, fair, elsewhere=setting.elsewhere)
        for name, part in (("first solo phase", first_solo), ("solo baseline", windows))
    ]
    gates += further_gates(files, setting, limits)
    verdict = Validity.of(gates)
    known = {key: lab.get(key) for key in _LAB} | (_box(setting, behind, before) if setting.box else _path(setting))
    harm = harms(rows, baseline, demand.capacity_mbps(known), call=bool(setting.call)) if baseline else []
    return Scores(
        t0=t0,
        lab=known,
        picture=shown.source,
        primary=PRIMARY["call" if setting.call else "video"],
        own_kind=_own_kind(files, setting),
        validity=verdict,
        jitter_ms=jitter,
        host=_host(watch),
        phases=rows,
        baseline=baseline,
        baseline_windows=[(a - t0, b - t0) for a, b in windows],
        harm=harm if verdict.valid else [],
        renditions=rendition_changes(setting, shown),
        freezes=freeze_entries(setting, shown),
        flows=flows,
        series=over_time(evidence, span, 1.0),
        goodput_100ms=goodput(evidence, span, 0.1),
        ccdf=ccdfs(measured, windows, probes.get(_NOT_ECT.prefix), calm),
        ect1_ccdf=ccdfs(measured, windows, probes.get(_ECT1.prefix), None),
        sojourn=waits,
        sojourn_ccdf=wait_curves,
        frame_ccdf=ccdfs(measured, windows, shown.delays, None, "delay_ms"),
        blind=shown.blind,
        far=far,
    )


def _own_kind(files: RawFiles, setting: Setting) -> str | None:
    """The contender that is as the victim: a call beside a call, else the congestion control of an origin of ours.

    None where it is not known: a real site's, or that of HTTP/3's own transport.
    """
    if setting.call:
        return CALL
    asked = files.optional("options.json", records.OPTIONS) or {}
    ours = not setting.elsewhere and asked.get("origin_protocol", "h2") == "h2"
    control: str | None = asked.get("origin_cc")
    return control if ours else None


def _path(setting: Setting) -> dict[str, Any]:
    """What else the path was: the steps of its rates (t in s from the start), losses, varying delay, IPv6."""
    t0 = setting.span[0]
    steps = [{**rate, "t": round(rate["t"] - t0, 3)} for rate in setting.rates]
    further = {key: setting.lab.get(key) for key in ("path_varies_ms", "path_loss")}
    addresses = setting.lab.get("addresses")  # which runs of long ago did not keep
    if addresses and (version := ip_version(addresses["client"])) != 4:
        further["ip_version"] = version
    return {key: value for key, value in {"rate_steps": steps, **further}.items() if value}


def _box(setting: Setting, behind: SideCapture | None, before: SideCapture | None) -> dict[str, Any]:
    """What was seen of a box, each way: its name, the most that it let through in a second, the least delay.

    The least delay is by the clocks of both captures; there and back together it is right whatever these tell.
    """
    found: dict[str, Any] = {"box": setting.lab["box"]}
    if behind and before:
        near = [per_flow.address(setting.lab["addresses"][name]) for name in ("client", "receiver")]
        ways = {"down": (before.all, behind.all, "dst"), "up": (behind.all, before.all, "src")}
        for way, (entered, left, end) in ways.items():
            entered, left = (table.filter(pl.col(end).is_in(near)) for table in (entered, left))
            carried = left.with_columns(advance=pl.col("ip_bytes"))
            found[f"most_{way}_bps"] = round(float(per_flow.goodput_series(carried, *setting.span, 1.0).max()))
            least = sojourn.least_ms(entered, left)
            found[f"least_{way}_ms"] = None if least is None else round(least, 3)
    return found


def _probes(
    files: RawFiles, setting: Setting, behind: SideCapture | None, before: SideCapture | None, limits: Limits
) -> dict[str, pl.DataFrame]:
    """The probes through the queue, by what the names of their metrics begin with; and their gates."""
    if _ECT1.key not in setting.lab.get("ports", {}):
        # A run of scores before 2.2 has one probe, of the codepoint that was asked.
        one = probe_of(files.optional("options.json", records.OPTIONS) or {})
        sent = files.probes(f"{_NOT_ECT.file}.json")
        files.gates.append(validity.covers("probe", sent["t"] if sent is not None else None, setting.span, limits))
        return {} if sent is None else {one.prefix: sent}
    found = {}
    for probe in PROBES:
        name, port = f"{probe.name} probe", setting.lab["ports"].get(probe.key, 0)
        sent = files.probes(f"{probe.file}.json")
        files.gates.append(validity.covers(name, sent["t"] if sent is not None else None, setting.span, limits))
        # Each end's packets where they have not yet passed the bottleneck.
        for end, side, here in (("client", behind, "dport"), ("server", before, "sport")):
            own = side and side.all.filter(
                per_flow.is_at("src", setting.lab["addresses"][end]), pl.col("proto") == UDP, pl.col(here) == port
            )
            files.gates.append(validity.marked(name, end, _sent(own, setting.span), probe.codepoint, limits))
        if sent is not None:
            found[probe.prefix] = sent
    return found


def _added_delay(files: RawFiles, setting: Setting, limits: Limits) -> tuple[pl.DataFrame | None, Jitter | None]:
    """The probe past the queue in the timeline, what the lab itself adds to the path; and its gates."""
    if setting.box:
        return None, None  # no way leads past its queue
    unshaped = files.probes("irtt-unshaped.json")
    calm = latency.within(unshaped, [setting.span]) if unshaped is not None else None
    jitter = _jitter(calm, setting.lab["rtt_ms"]) if calm is not None else None
    lost = latency.loss(calm) if calm is not None else None
    if calm is not None and lost is not None and (of_path := setting.lab.get("path_loss")):
        spread = (of_path * (1 - of_path) / max(calm.height, 1)) ** 0.5
        limits = limits.model_copy(update={"unshaped_loss": limits.unshaped_loss + of_path + 4 * spread})
    if varies_ms := setting.lab.get("path_varies_ms"):
        limits = limits.model_copy(update={"jitter_ms": limits.jitter_ms + varies_ms})
    files.gates += [
        validity.covers("unshaped probe", unshaped["t"] if unshaped is not None else None, setting.span, limits),
        validity.at_most("unshaped probe lost", lost, limits.unshaped_loss, "%", 100),
        validity.jitter("jitter of the lab (P99)", jitter.p99 if jitter else None, limits),
    ]
    return calm, jitter


def _router(files: RawFiles, setting: Setting, limits: Limits) -> list[dict[str, Any]]:
    """The samples of the router's queues, and the gates that say whether these were the ones asked for."""
    lab, (t0, end) = setting.lab, setting.span
    queues = files.lines("qdisc.jsonl", records.QDISC)
    for side, asked in (("lan", lab["qdisc_down"]), ("wan", lab["qdisc_up"])):
        dev, seen = _device(setting, side), _of_side(queues, setting, side)
        files.gates += [
            validity.covers(f"qdisc samples of {dev}", [s["t"] for s in seen], setting.span, limits),
            validity.read_back(dev, asked, (s["qdiscs"] for s in seen if t0 <= s["t"] <= end)),
        ]
    if "verified_at_end" in lab:
        files.gates.append(validity.verified_at_end(lab["verified_at_end"]))
    return queues


def _device(setting: Setting, side: str) -> str:
    return str(setting.lab.get("interfaces", {}).get(side, side))


def _of_side(queues: Sequence[dict[str, Any]], setting: Setting, side: str) -> list[dict[str, Any]]:
    return [sample for sample in queues if sample["dev"] == _device(setting, side)]


def _clocks(
    setting: Setting,
    queues: Sequence[Mapping[str, Any]],
    sockets: Sequence[Mapping[str, Any]],
    behind: SideCapture | None,
    before: SideCapture | None,
) -> dict[str, Any]:
    """The times in each record of a run, by its file."""
    captures = (("client.pcapng", behind), ("server.pcapng", before))
    return {
        "timeline.json": [t for phase in setting.phases for t in (phase.start, phase.end)],
        "qdisc.jsonl": [sample["t"] for sample in queues],
        **({"ss.jsonl": [sample["t"] for sample in sockets]} if sockets else {}),
        **{name: capture.all["t_ns"].to_numpy() for name, capture in captures if capture},
    }


def _beside(
    setting: Setting, bulk: Sequence[Mapping[str, Any]], second: Sequence[Mapping[str, Any]],
    measured: Mapping[str, Window],
) -> dict[str, dict[str, Any]]:  # fmt: skip
    """What competed besides bulk flows had of each phase, by its name."""
    of_phase = {p.name: [record for record in bulk if record["phase"] == p.name] for p in setting.phases}
    return {name: applications.told(records, second, measured[name]) for name, records in of_phase.items()}


def _table(
    evidence: Evidence, setting: Setting, measured: Mapping[str, Window], further: Mapping[str, dict[str, Any]] = {}
) -> list[PhaseScores]:
    t0 = setting.span[0]
    return [
        PhaseScores(name=p.name, contender=p.contender, start=p.start - t0, end=p.end - t0,
                    **evidence.metrics([measured[p.name]]), **further.get(p.name, {}))
        for p in setting.phases
    ]  # fmt: skip


def _call_gates(
    files: RawFiles,
    setting: Setting,
    call: Mapping[str, Any],
    behind: SideCapture | None,
    before: SideCapture | None,
    limits: Limits,
) -> list[Gate]:
    """A live call must keep to one path; of ours each end must mark its packets as asked."""
    t0, end = setting.span
    if setting.live:
        lines = files.lines("player.jsonl", records.PLAYER)
        events = [s for s in lines if s.get("event") == "call" and t0 <= s["t"] <= end]
        return [validity.call_path([s["detail"].get("path") for s in events], call["client"])]
    sent = {"client": behind.back if behind else None, "server": before.victim if before else None}
    return [validity.marked("call", end, _sent(part, setting.span), call["ecn"], limits) for end, part in sent.items()]


def _jitter(calm: pl.DataFrame, rtt_ms: float) -> Jitter | None:
    came = calm.drop_nulls("rtt_ms")  # loss has a gate of its own
    percentiles = [latency.percentile(came, 50), latency.percentile(came, 99), latency.largest(came)]
    p50, p99, most = (None if rtt is None else rtt - rtt_ms for rtt in percentiles)
    return None if p50 is None or p99 is None or most is None else Jitter(p50=p50, p99=p99, max=most)


def _host(watch: Sequence[Mapping[str, Any]]) -> Host | None:
    if not watch:
        return None
    used = [s["cpu_cores_used"] for s in watch]
    last = watch[-1]
    cores = sum(last.get(f"cpu_{what}", 0) for what in ("cores_used", "idle_cores", "steal_cores"))
    return Host(
        cpu_cores_mean=sum(used) / len(used), cpu_cores_max=max(used), cores=round(cores),
        stall_worst_ms=max(s["stall_ms"] for s in watch),
    )  # fmt: skip


def _sent(table: pl.DataFrame | None, span: Window) -> list[int]:
    """The ECN fields of the packets that were sent inside the timeline."""
    inside = None if table is None else table.filter((pl.col("t_ns") / 1e9).is_between(*span))
    return [] if inside is None else inside["ecn"].to_list()
