# SPDX-License-Identifier: Apache-2.0
"""Score a run from its raw files: the document scores.json.

The same files always give the same document: no randomness, no clock, rounded floats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sojourn.hardware.machine.ip import ip_version
from sojourn.scoring import responsiveness
from sojourn.scoring.baseline import harms
from sojourn.scoring.curves import ccdfs, goodput, over_time, sojourn_times
from sojourn.scoring.evidence import Setting, SideCapture
from sojourn.scoring.game import competing_fields
from sojourn.scoring.gates.registry import judged
from sojourn.scoring.home import home_figures
from sojourn.scoring.metrics import Observations
from sojourn.scoring.packets import per_flow, queue_delay, sojourn
from sojourn.scoring.picture.shown import freeze_entries, rendition_changes
from sojourn.scoring.recovery import recovered
from sojourn.scoring.room import parties
from sojourn.scoring.run_evidence import RunEvidence
from sojourn.scoring.schema.scores import Host, Metrics, PhaseScores, Scores
from sojourn.scoring.schema.windows import Window
from sojourn.scoring.statistics.harm import PRIMARY
from sojourn.scoring.transport import applications, demand
from sojourn.scoring.validity import Validity
from sojourn.traffic.load import CALL, GAME, TESTS, parse_load
from sojourn.traffic.probes import PROBES
from sojourn.traffic.user_program import PREFIX

_NOT_ECT, _ECT1 = PROBES

_LAB = ("name", "rate_down_bps", "rate_up_bps", "rtt_ms", "qdisc_down", "qdisc_up")


def score_run(run: Path) -> Scores:
    """Score the run directory `run` from its raw files.

    Missing, damaged or truncated records fail their gate, and their metrics are None. Raises RecordError if
    timeline.json or lab.json is missing or damaged.
    """
    inputs = RunEvidence(run)
    setting, evidence, measured, shown = inputs.setting, inputs.evidence, inputs.measured, inputs.picture
    lab, span, t0 = setting.lab, setting.span, setting.span[0]
    # The client side is after the downlink bottleneck, the server side before it.
    behind, before = inputs.behind, inputs.before
    rows, far, far_baseline = _table(evidence, setting, measured, _besides_bulk(inputs)), [], None
    if inputs.far_picture:
        seen_there = Observations(
            inputs.far_picture, setting.clip_fps, before.back if before else None,
            marks=inputs.marks.get("server"), sound=inputs.far_tones, neteq=inputs.neteq.get("server"),
        )  # fmt: skip
        far = _table(seen_there, setting, measured)
        if setting.room and inputs.solo:
            far_baseline = Metrics(**seen_there.metrics(inputs.solo))
    windows = inputs.solo
    known = {key: lab.get(key) for key in _LAB} | (_box(setting, behind, before) if setting.box else _path(setting))
    baseline = Metrics(**evidence.metrics(windows)) if windows else None
    capacity, steady = None if setting.room else demand.capacity_mbps(known), setting.kind in ("call", "game")
    if baseline:
        if not setting.web:  # between two pages it gets nothing
            rows = recovered(rows, setting, evidence, baseline, windows)
        rows, baseline = _with_fair_shares(rows, baseline, known, capacity, call=steady)
    own = queue_delay.delays(inputs.queues_of("lan"))
    waits, wait_curves = (
        sojourn_times(before.all, behind.all, own, lab, measured, windows) if before and behind else ([], [])
    )
    verdict = Validity.of(judged(inputs))
    harm = harms(rows, baseline, capacity, call=steady) if baseline else []
    return Scores(
        t0=t0,
        lab=known,
        picture=shown.source,
        primary=PRIMARY[setting.kind],
        own_kind=_own_kind(inputs),
        validity=verdict,
        jitter_ms=inputs.jitter,
        host=_host(inputs.host_in_timeline),
        phases=rows,
        baseline=baseline,
        baseline_windows=[(a - t0, b - t0) for a, b in windows],
        harm=harm if verdict.valid else [],
        renditions=rendition_changes(setting, shown),
        freezes=freeze_entries(setting, shown),
        flows=[part.flow for part in inputs.contenders if part.flow],
        series=over_time(evidence, span, 1.0),
        goodput_100ms=goodput(evidence, span, 0.1),
        ccdf=ccdfs(measured, windows, evidence.probes.get(_NOT_ECT.prefix), inputs.calm),
        ect1_ccdf=ccdfs(measured, windows, evidence.probes.get(_ECT1.prefix), None),
        sojourn=waits,
        sojourn_ccdf=wait_curves,
        frame_ccdf=ccdfs(measured, windows, shown.delays, None, "delay_ms"),
        sound_begins=begins - t0 if inputs.sound is not None and (begins := inputs.sound.begins) else None,
        blind=shown.blind,
        far=far,
        parties=parties(inputs, far, far_baseline, valid=verdict.valid),
        loads=inputs.loads or [],
        home=home_figures(rows, baseline, PRIMARY[setting.kind]) if baseline and verdict.valid else [],
    )


def _own_kind(evidence: RunEvidence) -> str | None:
    """Return the contender of the victim's kind: a call for a call, otherwise Sojourn's origin's congestion control.

    None if unknown: a real site's, or that of Caddy's HTTP/3.
    """
    if evidence.setting.call:
        return CALL
    if evidence.setting.game:
        return GAME
    control: str | None = evidence.options.get("origin_cc")
    if evidence.setting.elsewhere or not control:
        return None
    if evidence.options.get("origin_server") == "noq":
        return f"{PREFIX}quic-{control}"
    return control if evidence.options.get("origin_protocol", "h2") == "h2" else None


def _path(setting: Setting) -> dict[str, Any]:
    """Return further properties of the path: rate steps (t in s from the start), losses, varying delay, IPv6."""
    t0 = setting.span[0]
    steps = [{**rate, "t": round(rate["t"] - t0, 3)} for rate in setting.rates]
    further = {key: setting.lab.get(key) for key in ("path_varies_ms", "path_loss")}
    addresses = setting.lab.get("addresses")  # missing in old runs
    if addresses and (version := ip_version(addresses["client"])) != 4:
        further["ip_version"] = version
    return {key: value for key, value in {"rate_steps": steps, **further}.items() if value}


def _box(setting: Setting, behind: SideCapture | None, before: SideCapture | None) -> dict[str, Any]:
    """Return the observations of a black box: its name; per direction, peak goodput in a second and minimum delay.

    The minimum delay depends on the clocks of both captures; the sum of both directions does not.
    """
    record: dict[str, Any] = {"box": setting.lab["box"]}
    if behind and before:
        near = [per_flow.address(setting.lab["addresses"][name]) for name in ("client", "receiver")]
        ways = {"down": (before.all, behind.all, "dst"), "up": (behind.all, before.all, "src")}
        for way, (entered, left, end) in ways.items():
            entered, left = (table.filter(pl.col(end).is_in(near)) for table in (entered, left))
            carried = left.with_columns(advance=pl.col("ip_bytes"))
            record[f"most_{way}_bps"] = round(float(per_flow.goodput_series(carried, *setting.span, 1.0).max()))
            least = sojourn.least_ms(entered, left)
            record[f"least_{way}_ms"] = None if least is None else round(least, 3)
    return record


def _besides_bulk(evidence: RunEvidence) -> dict[str, dict[str, Any]]:
    """Return the fields of contenders other than bulk flows, by the phase's name."""
    phases = [phase.name for phase in evidence.setting.phases]
    of_phase = {name: [record for record in evidence.bulk if record["phase"] == name] for name in phases}
    return {
        name: applications.phase_fields(records, evidence.second_player, evidence.measured[name])
        | responsiveness.result_fields(records)
        | competing_fields(evidence.bulk, name, evidence.measured[name], evidence.setting.server_ahead_s)
        for name, records in of_phase.items()
    }


def _with_fair_shares(
    rows: list[PhaseScores], alone: Metrics, lab: Mapping[str, Any], capacity_mbps: float | None, *, call: bool
) -> tuple[list[PhaseScores], Metrics]:
    """Return the rows and the baseline with `fair_share_met`; none next to a test, whose downloads grow in number."""
    tests = {row.name for row in rows if any(part.contender in TESTS for part in parse_load(row.contender or CALL))}
    others = [row for row in rows if row.name not in tests]
    shared, alone = demand.with_fair_shares(others, alone, lab, capacity_mbps, call=call)
    by_name = {row.name: row for row in shared}
    return [by_name.get(row.name, row) for row in rows], alone


def _table(
    evidence: Observations, setting: Setting, measured: Mapping[str, Window], further: Mapping[str, dict[str, Any]] = {}
) -> list[PhaseScores]:
    t0 = setting.span[0]
    return [
        PhaseScores(name=p.name, contender=p.contender, start=p.start - t0, end=p.end - t0,
                    **evidence.metrics([measured[p.name]]), **further.get(p.name, {}))
        for p in setting.phases
    ]  # fmt: skip


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
