# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.spec import Hop
from sojourn.harness.matrix import dumbbell
from sojourn.scoring.schema.cell_scores import Ccdf, CellScores, CompletionScores, DelayScores, ProbeScores, figures_of
from sojourn.scoring.schema.columns import ESTIMATES, FLOWS, PROBES, SHORT, TALKS, WIRE
from sojourn.scoring.transport import cell_scores
from sojourn.scoring.transport.bottleneck_seen import active_queues, replay_scores, replay_window_needed, wire_scores
from sojourn.scoring.transport.completion import completion_harm
from sojourn.scoring.transport.delays import pooled_ccdf, probe_scores
from sojourn.scoring.transport.frames import CellFrames
from sojourn.scoring.transport.geometry import rate_periods
from sojourn.scoring.transport.rates import convergence_s, goodput_series, jain
from sojourn.scoring.transport.spikes import Spike, spike
from sojourn.traffic.spec import Call, Flow, Probe, ShortFlows

STEP = 0.05


def samples(rates: list[tuple[float, float, float]], flow: int = 0, srtt_ms: float = 30, **more: int) -> pl.DataFrame:
    """Samples of a flow whose goodput is piecewise constant: (from s, to s, Mbit/s)."""
    t = np.arange(round(rates[0][0] / STEP) + 1, round(rates[-1][1] / STEP) + 1) * STEP
    got = sum(np.clip(t - a, 0, b - a) * mbps * 1e6 / 8 for a, b, mbps in rates)
    fixed: dict[str, int | None] = {"min_rtt_us": 20_000, "cwnd": 10, "retrans": 0, "lost": 0, "delivered": 0}
    fixed |= {"delivered_ce": 0, "delivery_rate_bps": None} | more
    frame = pl.DataFrame({"t_s": t, "received_bytes": got}).with_columns(
        flow=flow, srtt_us=srtt_ms * 1000, **{name: pl.lit(value) for name, value in fixed.items()}
    )
    return frame.select(FLOWS.keys()).cast(FLOWS)


def cell(*flows: Flow, hops: tuple[Hop, ...] = (), seconds: float = 60, **more: Any) -> Cell:
    hops = hops or (dumbbell.bottleneck(50, "fq_codel flows 1"),)
    return Cell(name="c", flows=flows, hops=hops, seconds=seconds, **more)


PAIR = dumbbell.flows(["prague", "cubic"], 20)


def score(
    asked: Cell, flows: pl.DataFrame, probes: pl.DataFrame | None = None, window_s: float = 60, tail_s: float = 2,
    **further: pl.DataFrame,
) -> dict[str, Any]:  # fmt: skip
    """The document of a run with these frames; it is read back as it was written."""
    found = cell_scores.score(asked, CellFrames(flows, probes, **further), window_s=window_s, tail_s=tail_s)
    assert CellScores.model_validate_json(json.dumps(found.document(), allow_nan=False)) == found
    return found.document()


def test_jain_is_one_over_n_at_worst() -> None:
    assert jain([5, 5]) == 1
    assert jain([10, 0]) == 0.5
    # (45 + 2)^2 / (2 (45^2 + 2^2)) by hand.
    assert jain([45, 2]) == pytest.approx(2209 / 4058)
    assert jain([0, 0]) == 0


def test_a_steady_pair() -> None:
    """40 Mbit/s in the window 18 to 58 s, whatever was before and after."""
    first = samples([(0, 18, 10), (18, 58, 40), (58, 60, 1)], retrans=5, delivered=95, delivered_ce=19)
    second = samples([(0, 18, 30), (18, 58, 5), (58, 60, 1)], flow=1)
    found = score(cell(*PAIR), pl.concat([first, second]), window_s=40)
    assert found["window_s"] == [18, 58]
    one, two = found["flows"]
    assert (one["d_ss_mbps"], two["d_ss_mbps"]) == (pytest.approx(40, abs=1e-3), pytest.approx(5, abs=1e-3))
    # (18 x 10 + 40 x 40 + 2) / 60
    assert one["goodput_mbps"] == pytest.approx(29.7, abs=1e-3)
    assert (found["ratio"], found["inverse_ratio"]) == (pytest.approx(8), pytest.approx(0.125))
    assert found["jain"] == pytest.approx(45**2 / (2 * (1600 + 25)), abs=1e-4)
    assert (one["retrans"], one["retrans_share"], one["ce_share"]) == (5, 0.05, 0.2)
    # 45 of 50 x 1448/1514 Mbit/s
    assert found["utilisation"] == pytest.approx(45 / 47.82, abs=1e-3)
    assert one["normalised"] == pytest.approx(40 / 23.91, abs=1e-3)
    assert one["rtt_mean_ms"] == one["rtt_max_ms"] == 30
    assert found["last"] == two


@pytest.mark.parametrize(("ip_version", "payload"), [(4, 1448), (6, 1428)])
def test_a_full_link_is_used_whole_over_both_ip_versions(ip_version: int, payload: int) -> None:
    carried = 50 * payload / 1514
    found = score(cell(PAIR[0], ip_version=ip_version), samples([(0, 60, carried)]), window_s=40)
    assert found["utilisation"] == found["periods"][0]["utilisation"] == pytest.approx(1, abs=1e-3)
    assert found["flows"][0]["normalised"] == pytest.approx(1, abs=1e-3)


def test_d_ss_is_the_mean_of_the_delivery_rates_told_in_the_window() -> None:
    told = samples([(0, 60, 40)], delivery_rate_bps=42_000_000)
    told = told.with_columns(
        delivery_rate_bps=pl.when(pl.col("t_s") < 30)
        .then(0)  # before the first estimate: no rate
        .when(pl.col("t_s") > 57.99)
        .then(1)  # behind the window
        .otherwise("delivery_rate_bps")
    )
    (found,) = score(cell(PAIR[0]), told, window_s=40)["flows"]
    assert (found["d_ss_mbps"], found["window_goodput_mbps"]) == (42, pytest.approx(40, abs=1e-3))


def test_flows_that_are_compared_have_one_definition_of_d_ss() -> None:
    up = PAIR[0].model_copy(update={"up": True})
    told = [samples([(0, 60, rate)], n, delivery_rate_bps=rate * 2_000_000) for n, rate in ((0, 10), (2, 5))]
    silent = samples([(0, 60, 5)], flow=1)  # UDP, or a program
    found = score(cell(*PAIR, up), pl.concat([*told, silent]), window_s=40)
    assert [flow["d_ss_mbps"] for flow in found["flows"]] == pytest.approx([10, 5, 10], abs=1e-3)
    assert found["ratio"] == pytest.approx(2) and found["jain"] == pytest.approx(0.9, abs=1e-4)
    both = score(cell(*PAIR), pl.concat([told[0], told[1].with_columns(flow=pl.lit(1, pl.Int64))]), window_s=40)
    assert [flow["d_ss_mbps"] for flow in both["flows"]] == [20, 10]


def test_the_window_begins_with_the_last_flow_and_ends_before_the_first_stops() -> None:
    late = Flow(contender="cubic", rtt_us=0, start_s=30, stop_s=50)
    assert score(cell(PAIR[0], late), samples([(0, 60, 1)]), window_s=40)["window_s"] == [30, 48]


def test_flows_that_take_turns_have_a_window_each_and_are_not_compared() -> None:
    """As in the matrix l4s-media: the second flow begins after the first has stopped."""
    turns = [Flow(contender="cubic", rtt_us=0, start_s=at, stop_s=at + 12) for at in (10, 28)]
    rates = ((10, 15, 1), (15, 22, 8)), ((28, 33, 1), (33, 40, 4))
    flows = pl.concat([samples([*rate], n, cwnd=10 * (n + 1)) for n, rate in enumerate(rates)])
    found = score(cell(*turns), flows, window_s=7, tail_s=0)
    one, two = found["flows"]
    assert found["window_s"] == [22, 22] and (one["window_s"], two["window_s"]) == ([15, 22], [33, 40])
    assert [flow["d_ss_mbps"] for flow in (one, two)] == pytest.approx([8, 4], abs=1e-3)
    assert [flow["window_goodput_mbps"] for flow in (one, two)] == pytest.approx([8, 4], abs=1e-3)
    assert (one["cwnd_mean"], two["cwnd_mean"]) == (10, 20)
    assert not {"jain", "jain_whole", "ratio", "inverse_ratio", "convergence_s", "utilisation"} & found.keys()
    assert "normalised" not in one and found["last"] == two
    # A flow up in another time: those down have the same window, and are compared.
    before = turns[0].model_copy(update={"up": True})
    later = [turns[1].model_copy(update={"stop_s": stop}) for stop in (40, 45)]
    found = score(cell(before, *later), pl.concat([flows, samples([(28, 45, 2)], 2)]), window_s=7, tail_s=0)
    assert [flow["window_s"] for flow in found["flows"]] == [[15, 22], [33, 40], [33, 40]]
    assert found["ratio"] == pytest.approx(2, abs=1e-3) and "utilisation" not in found and "up_jain" not in found
    # Flows that run at the same time have one window, which is the cell's.
    both = score(cell(*PAIR), pl.concat([samples([(0, 60, 1)], n) for n in range(2)]))
    assert not any("window_s" in flow for flow in both["flows"]) and both["jain"] == 1


@pytest.mark.parametrize("starts", [(10, 30), (10, 10)])
def test_flows_that_stop_before_a_window_begins_have_no_figures_of_it(starts: tuple[int, int]) -> None:
    short = [Flow(contender="cubic", rtt_us=0, start_s=at, stop_s=at + 2) for at in starts]
    flows = pl.concat([samples([(at, at + 2, 8)], n) for n, at in enumerate(starts)])
    found = score(cell(*short), flows)
    assert [(flow["d_ss_mbps"], flow["window_goodput_mbps"]) for flow in found["flows"]] == [(None, None)] * 2
    assert [flow["goodput_mbps"] for flow in found["flows"]] == pytest.approx([8, 8], abs=1e-3)
    assert not {"jain", "ratio", "utilisation"} & found.keys()
    addresses = dict(figures_of(found))
    assert "flows.0.goodput_mbps" in addresses and "flows.0.d_ss_mbps" not in addresses


def test_a_flow_that_never_was_has_no_rate() -> None:
    found = score(cell(*PAIR), samples([(0, 60, 40)]))
    assert found["flows"][1]["d_ss_mbps"] == 0
    assert "rtt_mean_ms" not in found["flows"][1]
    assert found["ratio"] is None and found["jain"] == 0.5


def test_an_end_that_does_not_tell_deliveries_has_no_shares() -> None:
    told = samples([(0, 60, 40)], retrans=3).with_columns(delivered=pl.lit(None, pl.Int64), delivered_ce=None)
    (found,) = score(cell(PAIR[0]), told.cast(FLOWS))["flows"]
    assert found["retrans"] == 3 and "ce_share" not in found and found["d_ss_mbps"] == pytest.approx(40)


def test_equal_frames_give_equal_json() -> None:
    flows = pl.concat([samples([(0, 60, 40)]), samples([(0, 60, 7)], flow=1)])
    probes = pl.DataFrame({"t_s": [1.0, 2.0], "probe": [0, 0], "delay_us": [11_000.0, None]}, schema=PROBES)
    asked = cell(*PAIR, probes=(Probe(rtt_us=20_000),))
    assert json.dumps(score(asked, flows, probes)) == json.dumps(score(asked, flows, probes))


def test_convergence_is_when_the_next_five_seconds_are_alike() -> None:
    """The second flow starts at 10 s and has its half from 20 s on: of 5 s from 18.6 s on, 3.6 s are alike."""
    flows = dumbbell.flows(["prague", "prague"], 80, gap_s=10)
    first = samples([(0, 20, 40), (20, 60, 20)])
    second = samples([(10, 20, 0), (20, 60, 20)], flow=1)
    found = score(cell(*flows), pl.concat([first, second]))
    # x s alike of 5: the rates are 20 x/5 and 20 x/5 + 40 (1 - x/5); J = (a + b)^2 / (2 (a^2 + b^2)) >= 0.95.
    x = next(x for x in np.arange(0, 5, 0.1) if jain([4 * x, 40 - 4 * x]) >= 0.95)
    assert found["convergence_s"] == pytest.approx(10 - 5 + x, abs=0.11)
    never = pl.concat([samples([(0, 60, 40)]), samples([(10, 60, 2)], flow=1)])
    assert score(cell(*flows), never)["convergence_s"] == "Infinity"
    assert convergence_s([(np.array([0.0, 60]), np.array([0.0, 60]))], 10, 60) is None


def test_spike_ends_when_the_rtt_stays_down() -> None:
    t = np.arange(30, 60, 0.1)
    rtt = np.where(t < 36, 300.0, 90.0)
    # A relapse within a second does not end it, one after a second is another matter.
    rtt[(t > 36.5) & (t < 37)] = 200
    rtt[(t > 50) & (t < 51)] = 400
    found = spike(t, rtt, 30, 60, base_ms=80, rate_mbps=25)
    assert found == Spike(320, pytest.approx(6.9, abs=0.11), True)
    flat = spike(t, np.full_like(t, 95.0), 30, 60, base_ms=80, rate_mbps=25)
    assert flat == Spike(15, 0, True)
    lasting = spike(t, np.full_like(t, 4346.0), 30, 60, base_ms=80, rate_mbps=1)
    assert lasting == Spike(4266, 30, False)


def test_at_low_rates_four_frames_are_no_spike() -> None:
    """At 1 Mbit/s a frame takes 12.1 ms: 80 + 25 + 48 ms is the level."""
    t = np.arange(0, 10, 0.1)
    assert spike(t, np.full_like(t, 150.0), 0, 10, 80, 1).spike_s == 0
    assert spike(t, np.full_like(t, 155.0), 0, 10, 80, 1).spike_over is False


def test_periods_follow_the_schedule() -> None:
    hop = dumbbell.bottleneck(50, "fq_codel", steps=[(30, 25)])
    found = score(cell(PAIR[0], hops=(hop,)), samples([(0, 30, 47.82), (30, 60, 11.955)]), window_s=20)
    before, after = found["periods"]
    assert (before["rate_mbps"], after["rate_mbps"]) == (50, 25)
    assert before["utilisation"] == pytest.approx(1, abs=2e-3)
    assert after["utilisation"] == pytest.approx(0.5, abs=1e-3)
    assert after["height_ms"] == 10 and after["spike_s"] == 0
    # The window of 38 to 58 s lies under one rate.
    assert found["utilisation"] == pytest.approx(0.5, abs=1e-3)


def test_the_least_rate_is_the_bottleneck_and_cake_shapes_itself() -> None:
    hops = (
        dumbbell.bottleneck(100, "dualpi2"),
        Hop(),
        dumbbell.bottleneck(1000, "cake bandwidth 47500000bit flowblind"),
    )
    assert rate_periods(cell(PAIR[0], hops=hops)) == [(0, 47.5)]
    assert rate_periods(cell(PAIR[0], hops=(Hop(),))) == [(0, None)]
    stepped = dumbbell.bottleneck(50, "cake bandwidth 5mbit", steps=[(10, 8), (20, 4)])
    assert rate_periods(cell(PAIR[0], hops=(stepped,))) == [(0, 5), (20, 4)], "a step of the link leaves CAKE's rate"
    red = dumbbell.bottleneck(20, "red limit 150000 avpkt 1000 bandwidth 10mbit")
    assert rate_periods(cell(PAIR[0], hops=(red,))) == [(0, 20)], "RED's bandwidth is a parameter of its average"


def test_a_round_trip_is_less_the_whole_path() -> None:
    probes = pl.DataFrame([(1.0, 0, 25_000.0)], schema=PROBES, orient="row")
    asked = cell(*PAIR, probes=(Probe(rtt_us=20_000, round_trip=True),))
    one = score(asked, samples([(0, 60, 1)]), probes)["probes"][0]
    assert one["p50_ms"] == 25 and one["ccdf"]["ms"] == [5]


def test_a_call_tells_each_way_what_arrived_and_how_late() -> None:
    rows = [(t / 10, 0, 10_000.0 + t, 1000) for t in range(99)] + [(9.9, 0, None, 1000), (1.0, 1, None, 5000)]
    asked = cell(*PAIR, call=Call(rtt_us=20_000))
    columns = {name: kind for name, kind in TALKS.items() if name != "ce"}
    talks = pl.DataFrame(rows, schema=columns, orient="row")
    down, up = score(asked, samples([(0, 60, 1)]), talks=talks)["call"]
    assert down == {"mbps": 0.0132, "loss": 0.01, "p50_ms": 10.049, "p99_ms": 10.098, "max_ms": 10.098}
    lossy = pl.DataFrame([*rows, (5.0, 0, None, 1000)], schema=columns, orient="row")
    assert score(asked, samples([(0, 60, 1)]), talks=lossy)["call"][0]["p99_ms"] == "Infinity"
    assert up == {"mbps": 0, "loss": 1, "p50_ms": "Infinity", "p99_ms": "Infinity"}, "all of it was lost"
    # Without a column of delays, as in real time, what is told is what arrived.
    _, up = score(asked, samples([(0, 60, 1)]), talks=talks.drop("delay_us"))["call"]
    assert up == {"mbps": round(5000 * 8 / 60 / 1e6, 4)}


def test_a_call_between_browsers_tells_its_marks_and_the_rate_it_allows_itself_in_the_window() -> None:
    columns = {name: kind for name, kind in TALKS.items() if name != "delay_us"}
    # 1000 bytes ten times a second, every fourth with CE; before the window, none of them and other sizes.
    rows = [(t / 10, 0, 1000 if t >= 380 else 500, int(t >= 380 and not t % 4)) for t in range(600)]
    talks = pl.DataFrame(rows, schema=columns, orient="row")
    allowed = [(t + 0.5, 0, (9e6 if t < 38 else 1e6 + t * 1e4)) for t in range(60)] + [(45.0, 1, None)]
    ends = pl.DataFrame(allowed, schema=ESTIMATES, orient="row")
    asked = cell(*PAIR, call=Call(rtt_us=20_000, cc="scream"))
    down, up = score(asked, samples([(0, 60, 1)]), window_s=20, talks=talks, estimates=ends)["call"]
    assert down["window_mbps"] == pytest.approx(0.08, rel=0.01) and down["packet_bytes"] == 1000
    assert down["ce_share"] == pytest.approx(0.25, abs=0.01) and down["mbps"] < 0.07
    assert (down["available_min_mbps"], down["available_max_mbps"]) == (1.38, 1.57)
    assert up == {"mbps": 0, "window_mbps": 0} | dict.fromkeys(
        ("packet_bytes", "ce_share", "available_min_mbps", "available_max_mbps")
    )


def test_the_steady_state_leaves_the_ramp_out() -> None:
    """10 s at 1, then 10 Mbit/s: the mean from the step on."""
    flow = score(cell(PAIR[0]), samples([(0, 10, 1), (10, 60, 10)]))["flows"][0]
    assert flow["steady_start_s"] == 10 and flow["steady_mbps"] == pytest.approx(10, rel=0.01)


def test_probes_tell_loss_percentiles_and_the_queue_above_the_path() -> None:
    delays = [10_000.0 + 1000 * n for n in range(98)] + [None, None]
    probes = pl.DataFrame({"t_s": [n / 10 for n in range(100)], "probe": 0, "delay_us": delays}, schema=PROBES)
    flows = (Flow(contender="cubic", rtt_us=20_000), Flow(contender="cubic", rtt_us=20_000, start_s=5))
    found = score(cell(*flows, probes=(Probe(rtt_us=20_000),)), samples([(0, 60, 1)]), probes)["probes"][0]
    assert (found["sent"], found["loss"]) == (100, 0.02)
    # Nearest rank of 100, of which two never came: the 50th, the 95th, and the 99th, which is lost.
    assert (found["p50_ms"], found["p95_ms"], found["p99_ms"], found["max_ms"]) == (59, 104, "Infinity", 107)
    assert found["ccdf"]["ms"][0] == 0 and found["ccdf"]["ms"][-1] == 97
    assert found["ccdf"]["percent"][-1] == 2 and found["negative"] == 0
    # While the second flow runs there are 48 answered of 50: delays 60 to 107 ms, the 48th.
    assert found["while_flow"][1] == {"p95_ms": 107, "loss": 0.04}
    json.loads(json.dumps(found, allow_nan=False))


def test_a_packet_that_is_sooner_than_the_path_is_counted_not_clipped() -> None:
    probes = pl.DataFrame(
        [(n / 10, 0, delay) for n, delay in enumerate((9_000.0, 10_000.0, 12_000.0))], PROBES, orient="row"
    )
    found = score(cell(*PAIR, probes=(Probe(rtt_us=20_000),)), samples([(0, 60, 1)]), probes)["probes"][0]
    assert found["negative"] == 1 and found["ccdf"]["ms"] == [-1, 0, 2]


def test_curves_of_several_runs_are_pooled_with_what_they_lost() -> None:
    whole, lossy = (
        DelayScores(sent=100, loss=loss, ccdf=Ccdf(ms=[1.0, 5.0], percent=[50.0, 100 * loss])) for loss in (0, 0.2)
    )
    assert pooled_ccdf([whole, lossy]) == Ccdf(ms=[1.0, 5.0], percent=[50.0, 10.0])


def test_a_run_that_lost_all_probes_pulls_the_pooled_curve_up() -> None:
    def probes(delays: list[float | None]) -> DelayScores:
        return probe_scores(pl.DataFrame({"t_s": 0.0, "probe": 0, "delay_us": delays}, schema=PROBES), 0)

    lost, whole = probes([None, None]), probes([1000.0, 2000.0])
    assert lost.ccdf == Ccdf(ms=[], percent=[]) == pooled_ccdf([lost, lost]) and lost.loss == 1
    assert pooled_ccdf([whole, lost]) == Ccdf(ms=[1.0, 2.0], percent=[75.0, 50.0])


def test_short_flows_and_their_harm() -> None:
    short = pl.DataFrame(
        {"start_s": [0.0, 1.0, 2.0, 3.0], "bytes": [1, 2, 3, 4], "fct_s": [1.0, 2.0, 4.0, None]}, schema=SHORT
    )
    asked = cell(short_flows=ShortFlows(rtt_us=20_000))
    found = score(asked, pl.DataFrame(schema=FLOWS), short=short)["short"]
    never = "Infinity"
    assert found == {"count": 4, "unfinished": 1, "geometric_mean_s": never, "median_s": 2, "p95_s": never}
    solo = CompletionScores(count=4, unfinished=0, geometric_mean_s=1.0, median_s=0.5, p95_s=4.0)
    contended = CompletionScores.model_validate(found)
    assert completion_harm(solo, contended) == {"geometric_mean": 1, "median": 0.75, "p95": 1}
    assert completion_harm(contended, contended) == {"median": 0}, "nothing to set it against"
    assert completion_harm(CompletionScores(count=0, unfinished=0), contended) == {}
    ended = score(asked, pl.DataFrame(schema=FLOWS), short=short[:3])["short"]
    assert ended == {"count": 3, "unfinished": 0, "geometric_mean_s": 2, "median_s": 2, "p95_s": 4}


def test_flows_up_are_told_apart() -> None:
    up = tuple(flow.model_copy(update={"up": True}) for flow in PAIR)
    parts = [samples([(0, 60, rate)], flow=n) for n, rate in enumerate((20, 20, 3, 1))]
    found = score(cell(*PAIR, *up), pl.concat(parts))
    assert found["jain"] == pytest.approx(1, abs=1e-4)
    assert found["up_jain"] == pytest.approx(16 / 20, abs=1e-4)
    assert found["utilisation"] == pytest.approx(40 / 47.82, abs=1e-3)


def test_the_wire_is_told_by_outer_headers() -> None:
    """One tunnel's flow, with control packets of less than 1 % of the bytes beside it."""
    rows = [(1, 9000, 1500, 6000, 500, 1000, 12_000_000, 1480), (2, 10, 10, 0, 0, 0, 900, 240)]
    named = ("sport", "data_packets", "not_ect", "ect1", "ect0", "ce", "bytes", "largest")
    columns: dict[str, list[Any]] = {name: [row[n] for row in rows] for n, name in enumerate(named)}
    blank = {name: [None] * 2 for name in WIRE if name not in named}
    wire = pl.DataFrame(columns | blank, schema=WIRE)
    assert wire_scores(wire).document() == {
        "flows": 1, "largest_bytes": 1480, "not_ect": 0.1676, "ect0": 0.0555, "ect1": 0.6659, "ce": 0.111,
    }  # fmt: skip


def test_active_queues_are_the_median_of_the_way_down() -> None:
    def sample(dev: str, new: int, old: int) -> dict[str, Any]:
        queue = {"kind": "fq_codel", "packets": 9, "new_flows_len": new, "old_flows_len": old}
        return {"dev": dev, "qdiscs": [{"kind": "htb", "packets": 9}, queue]}

    down = [sample("lan", 0, 0), sample("lan", 1, 1), sample("lan", 0, 2)]
    assert active_queues([*down, sample("wan", 0, 9)]) == 2
    assert active_queues([{"dev": "lan", "qdiscs": [{"kind": "dualpi2", "packets": 9}]}]) is None


def test_the_ccdf_of_two_runs_counts_each_packet_once() -> None:
    def probes(ms: list[float]) -> pl.DataFrame:
        return pl.DataFrame({"t_s": ms, "probe": 0, "delay_us": [it * 1e3 for it in ms]}, schema=PROBES)

    one = probe_scores(probes([1, 2, 3, 4]), 0)
    other = probe_scores(probes([4, 8]), 0)
    both = probe_scores(probes([1, 2, 3, 4, 4, 8]), 0).ccdf
    pooled = pooled_ccdf([one, other])
    assert both and pooled.ms == both.ms and pooled.percent == pytest.approx(both.percent, abs=1e-3)


def test_goodput_of_each_second_is_drawn_at_its_middle() -> None:
    rows = [(t, 0, round(1e6 * t * t / 8), 0, 0, 0, 0, 0, 0, 0, 0) for t in (2.5, 3.0, 3.5, 4.0, 4.5)]
    flows = pl.DataFrame(rows, schema=FLOWS, orient="row")
    # Bytes grow with the square of the time: 9 - 0 Mbit in the first second, which begins with nothing, then 7.
    assert goodput_series(flows, 0, 2, 4.5) == [(2.5, 9.0), (3.5, 7.0)]


def test_a_window_is_told_over_an_equal_share_of_what_the_path_holds() -> None:
    asked = cell(*[Flow(contender="cubic", rtt_us=40_000)] * 2, hops=(dumbbell.bottleneck(15.14, "pfifo"),), seconds=10)
    rows = [
        (t / 10, n, t * 100_000, 40_000, 40_000, window, 0, 0, t, 0, 0)
        for t in range(1, 101)
        for n, window in enumerate((20, 50 if t <= 60 else 30))
    ]
    flows = pl.DataFrame(rows, schema=FLOWS, orient="row")
    told = score(asked, flows, window_s=2, tail_s=1)["flows"]
    # 14.48 Mbit/s of payload in 40 ms are 50 segments of 1448 bytes: a fair share is 25.
    assert [flow["normalised_window"] for flow in told] == [0.8, 1.2]


def test_a_replay_window_is_as_long_as_the_published_law_says() -> None:
    assert int(replay_window_needed(20, 100)) == 166


def test_a_replay_window_is_told_beside_the_sojourns_of_both_queues() -> None:
    replay = pl.DataFrame(
        {"way": ["down", "up"], "window": [32, 32], "packets": [990, 500], "late": [10, 0], "repeated": [0, 0]}
    )
    probes = [
        ProbeScores(probe=n, ecn=ecn, sent=2, loss=0, while_flow=[], ccdf=Ccdf(ms=[0.0, most], percent=[50, 0]))
        for n, (ecn, most) in enumerate((("not-ect", 30.0), ("ect1", 1.0)))
    ]
    assert replay_scores(replay, probes, 20.0).document() == {
        "late": 10, "late_up": 0, "late_share": 0.01, "c_peak_ms": 30.0, "l_peak_ms": 1.0, "needed": 50.0
    }  # fmt: skip
