# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.machine.errors import Code
from sojourn.harness.matrix.from_scenario import scenario_matrix
from sojourn.harness.matrix.matrix import MatrixError
from sojourn.harness.options.sources import SCENARIOS
from sojourn.traffic.web import MEAN_GAP_S
from tests.refusals import refusal

INCLUDED = sorted(SCENARIOS.glob("*.toml"))


def written(folder: Path, text: str) -> Path:
    (file := folder / "At home.toml").write_text(text)
    return file


def test_each_load_is_a_cell_with_the_path_of_its_time(tmp_path: Path) -> None:
    text = 'rate = "20mbit,30s:5mbit,70s:8mbit"\nrate-up = "2mbit"\nrtt = "40ms"\nloss = "1%"\njitter = "3ms"\n'
    text += 'timeline = "solo:20,cubic*2:5,solo:30,prague@up:30"\n'
    matrix = scenario_matrix(written(tmp_path, text))
    first, second = matrix.cells
    assert (matrix.name, first.name, second.name) == ("at-home", "cubic*2", "prague@up")
    assert [(flow.contender, flow.up, flow.rtt_us) for flow in first.flows] == [("cubic", False, 34_000)] * 2
    assert [(flow.contender, flow.up) for flow in second.flows] == [("prague", True)]
    down, up = first.hops[0].down, first.hops[0].up
    assert down and up and (down.rate_bps, up.rate_bps, up.path.loss_percent) == (20_000_000, 2_000_000, 1)
    assert (down.path.delay_us, down.path.jitter_us) == (3000, 3000)
    later = second.hops[0]
    assert later.down and later.down.rate_bps == 5_000_000
    assert [(step.at_s, step.rate_bps) for step in later.schedule] == [(15, 8_000_000)]
    assert (first.seconds, second.seconds, first.call) == (5, 30, None)


def test_a_load_that_comes_again_is_the_cell_of_its_first_phase(tmp_path: Path) -> None:
    text = 'rate = "20mbit,50s:5mbit"\ntimeline = "solo:20,cubic:20,prague:10,cubic:30"\n'
    first, second = scenario_matrix(written(tmp_path, text)).cells
    assert (first.name, first.seconds, second.name) == ("cubic", 20, "prague")
    assert first.hops[0].down and first.hops[0].down.rate_bps == 20_000_000


def test_both_ip_versions_are_a_list_of_two(tmp_path: Path) -> None:
    cells = scenario_matrix(written(tmp_path, 'ip-version = [4, 6]\ncontenders = "prague"\n')).cells
    assert [(cell.name, cell.ip_version) for cell in cells] == [("prague 4", 4), ("prague 6", 6)]


def test_lists_are_combined_into_cells(tmp_path: Path) -> None:
    text = 'service = "call"\nqdisc = ["pie", "codel"]\ncontenders = "cubic"\ncall-bitrate = "700kbit"\n'
    cells = scenario_matrix(written(tmp_path, text)).cells
    assert [cell.name for cell in cells] == ["cubic pie", "cubic codel"]
    assert [cell.call.bitrate_bps if cell.call else 0 for cell in cells] == [700_000] * 2


def test_its_page_has_rates_and_delays_of_every_cell_as_far_as_they_can_be_read(tmp_path: Path) -> None:
    def charts(text: str) -> list[tuple[int, list[str]]]:
        return [(len(it.cells), list(it.series.values())) for it in scenario_matrix(written(tmp_path, text)).charts]

    delays = ["probes.0.p99_ms", "probes.1.p99_ms"]
    assert charts('qdisc = ["pie", "codel"]\ncontenders = "cubic*2"\n') == [
        (2, ["flows.0.d_ss_mbps", "flows.1.d_ss_mbps"]), (2, delays)
    ]  # fmt: skip
    assert charts('contenders = "cubic*5"\n') == [(1, delays)]
    limits = ", ".join(f'"pfifo limit {n}"' for n in range(1, 18))
    assert charts(f'qdisc = [{limits}]\ncontenders = "cubic"\n') == []


def test_web_users_are_short_flows_and_a_call_is_a_call(tmp_path: Path) -> None:
    text = 'rtt = "30ms"\ntimeline = "solo:5,cubic+web*4:30,call:10,web+video:10"\n'
    matrix = scenario_matrix(written(tmp_path, text))
    web, call, video = matrix.cells
    short = web.short_flows
    assert short and (short.contender, short.rtt_us, short.mean_gap_s) == ("cubic-noecn", 30_000, MEAN_GAP_S / 4)
    assert short.count > 2 * 30 / short.mean_gap_s, "more than can be drawn for so many seconds"
    assert [flow.contender for flow in web.flows] == ["cubic"] and not web.call and not web.needs
    assert call.call and call.call.rtt_us == 30_000 and not call.short_flows
    assert video.needs == "a player for its second video" and matrix.runnable == (web, call)
    told = {column.metric for column in matrix.columns}
    assert {"short.median_s", "short.p95_s", "call.0.mbps", "call.1.mbps"} <= told


@pytest.mark.parametrize(
    ("qdisc", "names"),
    [
        ('"dualpi2"', ("C queue", "L queue")), ('"pie ecn"', ("Not-ECT", "ECT(1)")),
        ('["dualpi2", "pie"]', ("Not-ECT", "ECT(1)")),
    ],
)  # fmt: skip
def test_both_probes_of_a_run_are_in_each_cell(tmp_path: Path, qdisc: str, names: tuple[str, str]) -> None:
    matrix = scenario_matrix(written(tmp_path, f'qdisc = {qdisc}\ncontenders = "cubic"\n'))
    for cell in matrix.cells:
        assert [(probe.ecn, probe.interval_s) for probe in cell.probes] == [("not-ect", 0.02), ("ect1", 0.02)]
    heads = [column.head for column in matrix.columns if column.metric.startswith("probes.")]
    assert heads == [f"probe ({name}) {of} ms" for name in names for of in ("P50", "P99")]


def test_a_cell_has_one_call(tmp_path: Path) -> None:
    (cell,) = scenario_matrix(written(tmp_path, 'service = "call"\ntimeline = "solo:5,call:10"\n')).cells
    assert cell.needs == "a second call"


def test_the_call_of_a_cell_has_sound_if_the_file_says_so(tmp_path: Path) -> None:
    for text, sound in (("", False), ('call-sound = "on"\n', True), ('call-sound = "off"\n', False)):
        file = written(tmp_path, f'service = "call"\n{text}timeline = "solo:5,cubic:10"\n')
        (cell,) = scenario_matrix(file).cells
        assert cell.call and cell.call.sound is sound


def test_a_cell_has_no_speech(tmp_path: Path) -> None:
    text = 'service = "call"\ncall-sound = "speech"\ntimeline = "solo:5,cubic:10"\n'
    (cell,) = scenario_matrix(written(tmp_path, text)).cells
    assert cell.needs == "speech, which only `sojourn quality` judges (use call-sound=on)"


def test_the_call_of_a_cell_is_by_gcc_or_scream(tmp_path: Path) -> None:
    text = 'service = "call"\ncall-cc = ["gcc", "scream"]\ntimeline = "solo:5,cubic:10"\n'
    matrix = scenario_matrix(written(tmp_path, text))
    assert [cell.call.cc for cell in matrix.runnable if cell.call] == ["gcc", "scream"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('timeline = "solo:20"', ("invalid-value", "timeline", "contender")),
        ('timeline = "solo:20,cubic:4000"', ("unsupported", "seconds: ", "3600")),
        ('rate = "fast"', ("invalid-value", "At home.toml: rate: ")),
        ('lab = "sim"', ("not-from-file", "lab: ")),
    ],
)
def test_what_gives_no_cell_is_refused_with_the_file(
    tmp_path: Path, text: str, why: tuple[Code, *tuple[str, ...]]
) -> None:
    with refusal(MatrixError, *why, tmp_path / "At home.toml"):
        scenario_matrix(written(tmp_path, text))


@pytest.mark.parametrize("file", INCLUDED, ids=[file.stem for file in INCLUDED])
def test_the_included_scenarios_are_right(file: Path) -> None:
    assert scenario_matrix(file).labs


def test_lists_that_nobody_waits_for_are_refused_at_once(tmp_path: Path) -> None:
    lists = {name: [f"{n + 1}{unit}" for n in range(40)] for name, unit in (("rate", "mbit"), ("rtt", "ms"))}
    text = "".join(f"{name} = {values}\n" for name, values in {**lists, "rate-up": lists["rate"]}.items())
    (tmp_path / "many.toml").write_text(text)
    with refusal(MatrixError, "out-of-range", "many.toml: rate, rtt, rate-up: 64000 ", " 10000"):
        scenario_matrix(tmp_path / "many.toml")


def test_a_victims_call_is_that_of_the_run(tmp_path: Path) -> None:
    for service, bitrate_bps in (("call", 2_500_000), ("skype", 1_790_000)):
        (cell,) = scenario_matrix(written(tmp_path, f'service = "{service}"\ncontenders = "cubic"\n')).cells
        assert cell.call and cell.call.bitrate_bps == bitrate_bps and not cell.needs, service
    for service in ("room", "game"):
        (cell,) = scenario_matrix(written(tmp_path, f'service = "{service}"\ncontenders = "cubic"\n')).cells
        assert cell.call is None and cell.needs == f"{service} as victim"
