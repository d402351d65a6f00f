# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sojourn.apps import SERVICES
from sojourn.apps.options import CMCD_PLAYERS
from sojourn.hardware.kernel_build.kconfig import FRAGMENTS
from sojourn.hardware.machine.errors import Code
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import OPTIONS, Options
from sojourn.harness.options.record import restored, words
from sojourn.harness.options.rules import parse_options
from tests.unit.harness.options.refusals import refused


def parse(**given: Any) -> Options:
    raw = {option.name: None for option in OPTIONS}
    return parse_options(raw | {name.replace("_", "-"): value for name, value in given.items()})


def test_defaults_are_the_short_main_job() -> None:
    options = parse()
    assert (options.service, options.lab, str(options.qdisc_down)) == ("youtube", "sim", "fq_codel flows 1")
    assert (options.rate_down_bps, options.rate_up_bps, options.rtt_us) == (10_000_000, 10_000_000, 20_000)
    assert [p.contender for p in options.phases] == [None, "cubic", None, "prague", None]
    assert options.cell == "youtube fq_codel flows 1 10mbit 20ms"


def test_the_lab_that_was_named_is_told_from_the_default() -> None:
    assert (parse().asked_lab, parse(lab="sim").asked_lab, parse(lab="virtual").asked_lab) == ("", "sim", "virtual")
    assert parse(lab="sim").replace(asked_lab="") == parse()


def test_the_jitter_that_is_let_pass_is_the_labs_own_unless_given() -> None:
    assert parse().jitter_gate_ms is parse(lab="virtual").jitter_gate_ms is None
    assert (parse(jitter_gate="50us").jitter_gate_ms, parse(jitter_gate="3ms").jitter_gate_ms) == (0.05, 3)


def test_a_run_without_a_recording_may_be_asked_for_as_in_playwright() -> None:
    off = parse(video="off")
    assert (
        off.screening
        and off.record() == parse(recorder="none").record() == parse(recorder="none", video="off").record()
    )
    for further in ({"service": "call"}, {"lab": "virtual"}):
        with refused("video", "conflict", "--video=retain-on-failure"):
            parse(video="off", **further)
    with refused("recorder", "conflict", "--video=off"):
        parse(video="off", recorder="ffmpeg")
    with refused("video", "unknown-value", "retain-on-failure, off"):
        parse(video="only")


@pytest.mark.parametrize(
    ("given", "defaults", "recorder", "video"),
    [
        ({"service": "game"}, {"recorder": "none"}, "ffmpeg", "on"),
        ({"service": "game"}, {"video": "off"}, "ffmpeg", "on"),
        ({"service": "game"}, {"video": "retain-on-failure", "recorder": "obs"}, "ffmpeg", "on"),
        ({"video": "on"}, {"recorder": "none"}, "ffmpeg", "on"),
        ({"video": "retain-on-failure"}, {"recorder": "none"}, "ffmpeg", "retain-on-failure"),
        ({"video": "retain-on-failure"}, {"recorder": "obs"}, "obs", "retain-on-failure"),
        ({"video": "off"}, {"recorder": "obs"}, "none", "off"),
        ({"recorder": "obs"}, {"video": "off"}, "obs", "on"),
        ({"recorder": "obs"}, {"video": "retain-on-failure"}, "obs", "retain-on-failure"),
        ({"recorder": "none"}, {"video": "retain-on-failure"}, "none", "on"),
        ({"recorder": "none"}, {"video": "off"}, "none", "off"),
        ({}, {"recorder": "none", "video": "retain-on-failure"}, "none", "on"),
        ({}, {"recorder": "obs", "video": "off"}, "none", "off"),
        ({"service": "call", "recorder": "obs"}, {"video": "off"}, "obs", "on"),
    ],
)
def test_a_default_of_recordings_gives_way(
    given: dict[str, str], defaults: dict[str, str], recorder: str, video: str
) -> None:
    options = parse_options(given, defaults)
    assert (options.recorder, options.video) == (recorder, video)


def test_a_default_driver_is_ignored_by_a_game_alone() -> None:
    assert parse_options({"service": "game"}, {"driver": "selenium"}) == parse_options({"service": "game"})


def test_a_preset_is_called_a_scenario() -> None:
    with refused("preset", "unknown-option", "--scenario=access-line"):
        parse(preset="access-line")


def test_the_best_rendition_is_asked_of_youtube_alone() -> None:
    assert (parse().max_quality, parse(max_quality="2160p").max_quality) == (None, 2160)
    with refused("max-quality", "unknown-value", "--max-quality", "240p"):
        parse(max_quality="4k")


def test_a_cluster_runs_what_is_in_simulated_time() -> None:
    assert (parse().engine, parse(engine="tls://far:8786").engine) == ("local", "tls://far:8786")
    with refused("engine", "invalid-value", "tls://"):
        parse(engine="spark")
    for lab in ("virtual", "apu", "black-box"):
        with refused("engine", "conflict", lab, "--lab=sim"):
            parse(engine="tls://far:8786", lab=lab)


@pytest.mark.parametrize("address", ["dask://far:8786", "tcp://192.0.2.1:9", "ws://far:1", "dask://[2001:db8::1]:9"])
def test_a_cluster_that_anybody_may_reach_is_refused_unless_that_is_said(address: str) -> None:
    with refused("engine", "invalid-value", address, "tls://", "dask+unsafe://"):
        parse(engine=address)
    unsafe = f"dask+unsafe://{address.partition('://')[2]}"
    for right in (unsafe, "tls://far:8786", "dask://127.0.0.1:9", "tcp://localhost:9", "dask://[::1]:9"):
        assert parse(engine=right).engine == right


def test_a_server_of_the_users_own_is_reached_in_real_time_only() -> None:
    given = {"service": "sledovanitv", "url": "http://10.0.0.1/live.m3u8"}
    assert [parse(lab=lab, **given).url for lab in ("virtual", "apu")] == [given["url"]] * 2
    for lab in (None, "sim"):
        with refused("url", "conflict", "--lab=virtual"):
            parse(lab=lab, **given)


def test_a_virtual_lab_has_a_way_out_for_what_is_outside_alone() -> None:
    stream = {"service": "iptv", "url": "http://10.0.0.1/live.m3u8"}
    assert parse(lab="virtual", **stream).uplink == "cubic"  # the service's own
    assert parse(lab="virtual", origin_cc="bbr", **stream).uplink == "bbr"
    assert parse(lab="virtual", live=True).uplink == "bbr"
    assert parse(lab="apu", **stream).uplink is None
    assert parse(lab="virtual").uplink is None
    with refused("origin-cc", "no-effect", "an address"):
        parse(lab="apu", origin_cc="bbr", **stream)


def test_http3_has_the_origin_whose_congestion_control_is_named() -> None:
    def origin(**given: Any) -> tuple[str, str, str]:
        options = parse(**given)
        return options.origin_protocol, options.origin_server, options.origin_cc

    assert origin() == ("h2", "caddy", "bbr")
    assert origin(origin_protocol="h3") == ("h3", "caddy", "bbr")
    assert origin(origin_protocol="h3", origin_cc="newreno") == ("h3", "noq", "newreno")
    assert origin(origin_protocol="h3", origin_cc="prague") == ("h3", "noq", "prague")
    assert origin(origin_protocol="h3", origin_server="noq") == ("h3", "noq", "bbr3")  # noq has no bbr
    assert origin(origin_protocol="h3", origin_server="noq", service="o2tv") == ("h3", "noq", "cubic")
    for given in (
        {"origin_protocol": "h3", "origin_cc": "bbr"},
        {"origin_protocol": "h3", "origin_cc": "cubic", "origin_server": "caddy"},
        {"origin_cc": "newreno"},
    ):
        with refused("origin-cc", "conflict"):
            parse(**given)
    with refused("origin-server", "conflict", "--origin-protocol=h3"):
        parse(origin_server="noq")
    with refused("origin-cc", "conflict", "accurate ECN"):
        parse(lab="virtual", service="iptv", url="http://10.0.0.1/live.m3u8", origin_cc="prague")


@pytest.mark.parametrize("service", ["youtube", "iptv"])
def test_the_origin_of_a_record_is_its_own(service: str) -> None:
    for given in ({}, {"origin_cc": "cubic"}, {"origin_server": "noq"}):
        options = parse(service=service, origin_protocol="h3", **given)
        record = json.loads(json.dumps(options.record()))
        assert ("origin_server" in record) == bool(given)
        assert restored(record) == options


def test_an_origin_with_bbr3_needs_a_kernel_that_has_it() -> None:
    with refused("origin-cc", "unknown-value", "bbr3 is not in this kernel", "--kernel-source="):
        parse(origin_cc="bbr3")
    assert parse(origin_cc="bbr3", kernel_source=str(FRAGMENTS / "bbr3")).origin_cc == "bbr3"
    assert parse(origin_cc="bbr3", lab="virtual").origin_cc == "bbr3"  # there, the origin is on this machine's kernel


def test_a_virtual_lab_has_a_place_for_the_other_end_of_a_live_call() -> None:
    assert parse(lab="virtual", service="jitsi", live=True, url="https://meet.test/Room").far_end_problem is None


def test_defaults_come_with_the_service_unless_the_user_says_otherwise() -> None:
    tv = parse(service="sledovanitv")
    assert (tv.rate_down_bps, tv.rate_up_bps, tv.origin_cc, tv.buffer_s) == (5_000_000, 5_000_000, "cubic", 6)
    # 12 is the general default, but here it was asked for.
    asked = parse(service="sledovanitv", rate="8mbit", buffer="12")
    assert (asked.rate_down_bps, asked.origin_cc, asked.buffer_s) == (8_000_000, "cubic", 12)


def test_directions_are_apart_and_delay_is_split_without_loss() -> None:
    options = parse(qdisc="dualpi2", qdisc_up="pfifo limit 50", rate="50mbit", rate_up="5mbit", rtt="25us")
    down, up = options.bottleneck.down, options.bottleneck.up
    assert (down.qdisc.kind, down.rate_bps, up.qdisc.kind, up.rate_bps) == ("dualpi2", 50_000_000, "pfifo", 5_000_000)
    assert down.path.delay_us + up.path.delay_us == 25


def test_repetitions_have_seed_and_order_of_their_own_and_a_single_run_the_published_order() -> None:
    five = parse(repeat="5", seed="7")
    runs = [five.repetition(n) for n in range(1, 6)]
    assert [run.seed for run in runs] == [7, 8, 9, 10, 11]
    orders = [[p["contender"] for p in run.record()["phases"] if p["contender"]] for run in runs]
    assert sorted(orders[:2]) == sorted(orders[2:4]) == [["cubic", "prague"], ["prague", "cubic"]]
    assert five.repetition(3) == runs[2]
    for alone in (parse(seed="7"), parse(seed="7", repeat="1")):
        assert alone.repetition(1) == alone


def test_record_is_json_and_names_everything() -> None:
    record = json.loads(
        json.dumps(parse(results="somewhere", service="o2tv", live=True, lab="apu", credentials="~/tv.toml").record())
    )
    assert record["qdisc_down"] == "fq_codel flows 1"
    assert record["phases"][1] == {"name": "cubic", "contender": "cubic", "seconds": 120, "at_least": False}
    assert Path(record["results"]).is_absolute() and record["credentials"].endswith("/tv.toml")


@pytest.mark.parametrize(
    ("option", "given", "code"),
    [
        *(
            (name, {name: value}, "unknown-value")
            for name, value in (
                ("service", "youtub"), ("ip-version", "5"), ("driver", "selenum"), ("recorder", "vlc"),
                ("origin-cc", "vegas"), ("lab", "simulated"),
            )
        ),
        *(
            (name, {name: value}, "invalid-value")
            for name, value in (
                ("qdisc", "fq_codl"), ("qdisc-up", "pie target"), ("rate", "10"), ("rate", "fast"), ("rate", "90gbit"),
                ("rate", ""), ("rtt", "-5ms"), ("rtt", "5s"), ("timeline", "cubic:4"), ("contenders", "cubic,nonsuch"),
                ("contenders", "solo,cubic"), ("qdisc", "pfifo limit 0"), ("qdisc", "bfifo limit 0"),
                ("seed", "x"), ("seed", ""), ("jitter-gate", "soon"), ("repeat", "-2"), ("repeat", "five"),
                ("repeat", "2.5"), ("repeat", "²"), ("buffer", "much"), ("kernel-source", "/no/such.tar.xz"),
                ("kernel-source", "~nosuchuser/it"), ("results", "~nosuchuser/it"), ("rate", "10mbit,30:5mbit"),
                ("rate-up", "1mbit,0.5:2mbit"), ("jitter", "2"), ("bursts", "5"), ("bursts", "1-8"),
                ("bursts", "1ms-8"), ("jitter-gate", "2"),
            )
        ),
        ("jitter-gate", {"jitter-gate": "0"}, "out-of-range"),
        ("jitter-gate", {"jitter-gate": "0ms"}, "out-of-range"),
        ("buffer", {"buffer": "0"}, "out-of-range"),
        ("seed", {"seed": "4294967296"}, "out-of-range"),
        ("repeat", {"repeat": "0"}, "out-of-range"),
        ("repeat", {"repeat": "100000"}, "out-of-range"),
        ("call-cc", {"service": "call", "call-cc": "scream", "call-ecn": "ect1"}, "conflict"),
        ("call-cc", {"service": "call", "call-cc": "reno"}, "unknown-value"),
        ("call-cc", {"call-cc": "scream"}, "no-effect"),
        ("call-sound", {"service": "call", "lab": "virtual", "call-sound": "on"}, "conflict"),
        ("call-sound", {"service": "call", "lab": "virtual", "call-sound": "speech"}, "conflict"),
        ("call-sound", {"service": "room", "call-sound": "speech"}, "conflict"),
        ("call-sound", {"call-sound": "off"}, "no-effect"),
        *(
            (name, {"service": "iptv", "player": "dash-lolp", "target-latency": "3", name: value}, "conflict")
            for name, value in (
                ("buffer", "6"), ("origin-protocol", "h2"), ("origin-protocol", "h3"), ("origin-server", "caddy"),
                ("origin-server", "noq"),
            )
        ),
        *(("segment", {"segment": text}, "unknown-value") for text in ("700ms", "3s", "0", "20s", "short")),
        *(("segment", {"service": name, "segment": "1s"}, "no-effect") for name in ("call", "game", "web", "sabr")),
        ("segment", {"service": "o2tv", "live": True, "lab": "apu", "segment": "1s"}, "no-effect"),
        ("segment", {"service": "iptv", "url": "https://tv.example/1.m3u8", "lab": "virtual", "segment": "1s"},
         "no-effect"),
        *(
            (name, {"origin-pacing": "sammy", name: value}, "conflict")
            for name, value in (
                ("origin-protocol", "h2"), ("origin-protocol", "h3"), ("origin-server", "caddy"),
                ("origin-server", "noq"),
            )
        ),
        *(
            ("origin-pacing", {"origin-pacing": "sammy", "player": name}, "conflict")
            for name in ("shaka", "hls.js", "rx-player", "video.js")
        ),
        ("origin-pacing", {"service": "iptv", "player": "dash-dynamic", "origin-pacing": "sammy"}, "no-effect"),
        ("origin-pacing", {"lab": "apu", "live": True, "origin-pacing": "sammy"}, "no-effect"),
        ("parties", {"service": "room", "parties": "1"}, "out-of-range"),
        ("parties", {"service": "room", "parties": "9"}, "out-of-range"),
        ("parties", {"service": "room", "parties": "many"}, "invalid-value"),
        ("parties", {"service": "call", "parties": "4"}, "no-effect"),
        ("game-dscp", {"service": "game", "game-dscp": "64"}, "out-of-range"),
        ("game-dscp", {"service": "game", "game-dscp": "nqb"}, "invalid-value"),
        ("game-dscp", {"game-dscp": "45"}, "no-effect"),
        ("game-dscp", {"game-dscp": "45", "timeline": "solo:5,gamer:5"}, "no-effect"),
        ("layers", {"service": "room", "layers": "one"}, "unknown-value"),
        ("recorder", {"service": "game", "recorder": "obs"}, "no-effect"),
        ("video", {"service": "game", "video": "retain-on-failure"}, "no-effect"),
        ("driver", {"service": "game", "driver": "selenium"}, "no-effect"),
        ("browser", {"service": "game", "lab": "virtual", "browser": "/bin/sh"}, "no-effect"),
        ("exact", {"lab": "black-box", "exact": True}, "conflict"),
        ("service", {"service": "room", "lab": "virtual"}, "conflict"),
        ("call-cc", {"service": "jitsi", "live": True, "lab": "virtual", "call-cc": "scream"}, "no-effect"),
        ("live", {"live": True}, "conflict"),
        ("live", {"live": True, "lab": "sim"}, "conflict"),
        (
            "credentials",
            {"service": "o2tv", "live": True, "lab": "apu", "credentials": "~nosuchuser/it"},
            "invalid-value",
        ),
        ("lab-file", {"lab": "apu", "lab-file": "~nosuchuser/it"}, "invalid-value"),
    ],
)  # fmt: skip
def test_bad_options_are_one_line_that_names_the_option(option: str, given: dict[str, Any], code: Code) -> None:
    with refused(option, code, f"--{option}: "):
        parse(**given)


def test_defaults_of_the_origin_are_passed_over_by_a_broadcast_with_low_latency() -> None:
    given = {"service": "iptv", "player": "dash-lolp", "target-latency": "3"}
    options = parse_options(given, {"origin-server": "noq", "origin-protocol": "h2"})
    assert options == parse_options(given) and options.origin_server == "caddy"
    assert restored(json.loads(json.dumps(options.record()))) == options


@pytest.mark.parametrize("player", [None, *CMCD_PLAYERS])
def test_dash_js_can_be_paced(player: str | None) -> None:
    given = {"player": player, "origin-pacing": "sammy"}
    options = parse_options(given, {"origin-server": "noq"})
    assert options.origin_pacing == "sammy" and options.origin_server == "caddy"
    assert restored(json.loads(json.dumps(options.record()))) == options
    with refused("origin-protocol", "conflict", "--origin-pacing"):
        parse_options(given, {"origin-protocol": "h3"})


def test_a_game_against_a_second_video_has_a_browser_but_no_recording() -> None:
    assert parse(service="game", driver="selenium", contenders="video").driver == "selenium"
    of_defaults = parse_options({"service": "game"}, {"driver": "selenium", "recorder": "obs"})
    assert restored(json.loads(json.dumps(of_defaults.record()))) == of_defaults


def test_a_list_for_one_run_names_the_command_that_takes_lists() -> None:
    with refused("rtt", "invalid-value", "; for several values run `sojourn map rtt=20ms,40ms`"):
        parse(rtt="20ms,40ms")
    with refused("qdisc", "invalid-value", "`sojourn map 'qdisc=pie,fq_codel flows 1'`"):
        parse(qdisc="pie,fq_codel flows 1")
    for name, text in (("rtt", "20ms,soon"), ("ladder", "720p:2mbit,240p:300k"), ("jitter-gate", "2ms,3ms")):
        with pytest.raises(OptionsError, match=r"^(?!.*sojourn map)"):
            parse(**{name: text})


def test_space_needed_grows_with_length_and_rate() -> None:
    short, long = parse(), parse(timeline="published")
    assert 200 << 20 < short.needed_bytes < 500 << 20
    assert long.needed_bytes > short.needed_bytes and parse(rate="100mbit").needed_bytes > long.needed_bytes


def test_rates_step_over_the_timeline() -> None:
    options = parse(rate="10mbit,30s:5mbit,1e5ms:20mbit", rate_up="1mbit")
    assert options.rate_down_bps == 10_000_000 and options.rate_up_steps == ()
    assert [(step.at_s, step.rate_bps) for step in options.rate_steps] == [(30, 5_000_000), (100, 20_000_000)]
    assert parse(rate="10mbit,30s:5mbit").rate_up_steps == parse(rate="10mbit,30s:5mbit").rate_steps
    assert options.bottleneck.stepped(options.rate_steps, until_s=99).down.rate_bps == 5_000_000
    assert "10mbit 30s 5mbit 100s 20mbit" in options.cell
    assert options.needed_bytes > parse(rate="10mbit", rate_up="1mbit").needed_bytes


@pytest.mark.parametrize(
    ("given", "sound", "named"),
    [
        ({"service": "call"}, True, "on"),
        ({"service": "call", "call-sound": "off"}, False, "off"),
        ({"service": "call", "call-sound": "speech"}, True, "speech"),
        ({"service": "room"}, True, "on"),
        ({"service": "call", "lab": "virtual"}, False, None),
        ({"service": "o2tv"}, False, None),
    ],
)
def test_a_call_has_sound_in_simulated_time_and_its_command_line_names_it(
    given: dict[str, str], sound: bool, named: str | None
) -> None:
    options = parse_options(given)
    record = json.loads(json.dumps(options.record()))
    assert options.call_sound is sound and record.get("call_sound", False) is sound
    assert options.call_speech is record.get("call_speech", False) is (named == "speech")
    assert restored(record) == options and words(record).get("call-sound") == named
    assert not parse_options({"service": "call", "lab": "virtual"}, {"call-sound": "on"}).call_sound


@pytest.mark.parametrize(
    ("given", "option", "right"),
    [
        ({"timeline": "solo:3,cubic:30"}, "timeline", "solo:5"),
        ({"timeline": "solo:3,solo:3,cubic:30"}, "timeline", "solo:5"),
        ({"timeline": "solo:3,cubic:30,solo:24"}, "timeline", "solo:5"),
        ({"service": "call", "timeline": "solo:3,cubic:30,solo:44"}, "timeline", "solo:5"),
        ({"service": "game", "timeline": "solo:4,cubic:30"}, "timeline", "solo:5"),
        ({"service": "web", "timeline": "solo:4"}, "timeline", "solo:5"),
        ({"service": "room", "timeline": "solo:60", "rate": "8mbit,3s:1mbit"}, "rate", "5 s"),
        ({"service": "room", "timeline": "solo:60", "rate": "8mbit,9s:1mbit", "rate-up": "8mbit,4s:1mbit,9s:8mbit"},
         "rate-up", "5 s"),
        ({"service": "room", "timeline": "solo:3,cubic:7,solo:60+", "rate": "8mbit,20s:1mbit"}, "rate", "55 s"),
    ],
)  # fmt: skip
def test_a_run_that_cannot_have_a_baseline_is_refused(given: dict[str, str], option: str, right: str) -> None:
    with refused(option, "out-of-range", f"--{option}: ", right):
        parse_options(given)


@pytest.mark.parametrize(
    "given",
    [
        {"timeline": "solo:6,cubic:8"},
        {"timeline": "solo:5,cubic:8"},
        {"timeline": "solo:3,cubic:30,solo:25"},
        {"timeline": "solo:3,cubic:30,solo:2+"},
        {"timeline": "solo:2,solo:2", "rate": "10mbit,1s:5mbit"},  # a video alone in changing rates has no baseline
        {"service": "call", "timeline": "solo:3,cubic:30,solo:45"},
        {"service": "call", "timeline": "solo:5,cubic:30", "rate": "8mbit,3s:1mbit"},
        {"service": "room", "timeline": "solo:60", "rate": "8mbit,5s:1mbit"},
    ],
)
def test_a_run_that_may_have_a_baseline_is_accepted(given: dict[str, str]) -> None:
    assert restored(parse_options(given).record()).phases


def test_records_of_earlier_runs_without_a_baseline_can_be_read() -> None:
    record = parse(timeline="solo:5,cubic:8").record()
    record["phases"][0]["seconds"] = 2.0
    assert restored(record).phases[0].seconds == 2


@pytest.mark.parametrize("seed", [0, 1, 4294967296, 2**63 - 1])
def test_records_have_seeds_that_follow_the_largest_and_those_of_earlier_versions(seed: int) -> None:
    assert restored({**parse().record(), "seed": seed}).seed == seed


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_record_with_a_seed_that_no_table_has_is_refused(seed: int) -> None:
    with refused("seed", "invalid-value" if seed < 0 else "out-of-range", str(seed)):
        restored({**parse().record(), "seed": seed})


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("rate", "10mbit,5mbit", "invalid-value"),
        ("rate", "10mbit,30s:5", "invalid-value"),
        ("rate", "10mbit,later:5mbit", "invalid-value"),
        ("rate", "10mbit,30s:5mbit,20s:6mbit", "out-of-range"),
        ("rate", "10mbit,180s:5mbit", "out-of-range"),
        ("rate-up", "10mbit,0s:5mbit", "out-of-range"),
        ("loss", "30%", "out-of-range"),
        ("loss", "0", "out-of-range"),
        ("loss", "much", "invalid-value"),
        ("jitter", "1e400ms", "invalid-value"),
        ("jitter", "15ms", "out-of-range"),
        ("jitter", "0", "out-of-range"),
        ("bursts", "5ms-1ms", "out-of-range"),
        ("bursts", "1s", "out-of-range"),
        ("contenders", "cubic,", "invalid-value"),
        ("contenders", "cubic*99", "invalid-value"),
        ("timeline", "solo:5,cubic@down:9", "invalid-value"),
    ],
)
def test_what_no_path_can_be_is_refused(option: str, value: str, code: Code) -> None:
    with refused(option, code, f"--{option}: "):
        parse(**{option: value})


def test_a_path_that_loses_and_varies_is_what_the_bottleneck_makes() -> None:
    options = parse(loss="1%", jitter="2ms", bursts="1ms-8ms", rtt="21ms")
    for way in (options.bottleneck.down.path, options.bottleneck.up.path):
        assert (way.loss_percent, way.jitter_us, way.slot_us, way.slot_max_us) == (1, 2000, 1000, 8000)
        assert way.varies_us == 10_000
    assert parse(bursts="5ms").bottleneck.up.path.varies_us == 5000
    assert options.cell.endswith("21ms loss 1% jitter 2ms bursts 1ms-8ms")
    assert restored(json.loads(json.dumps(options.record()))) == options
    stepped = parse(rate="10mbit,30s:5mbit")
    assert restored(json.loads(json.dumps(stepped.record()))) == stepped


def test_a_film_and_a_ladder_of_the_users_own(tmp_path: Path) -> None:
    (film := tmp_path / "film.mp4").touch()
    options = parse(clip=str(film), ladder="240p:300k,480p:1mbit")
    assert (options.clip, options.ladder) == (film, ((240, 300_000), (480, 1_000_000)))
    assert restored(json.loads(json.dumps(options.record()))) == options
    refusals: list[tuple[dict[str, Any], tuple[str, Code]]] = [
        ({"clip": str(tmp_path / "none.mp4")}, ("clip", "not-a-file")),
        ({"clip": str(film), "engine": "tls://far:8786"}, ("clip", "conflict")),
        ({"clip": str(film), "service": "call"}, ("clip", "no-effect")),
        ({"ladder": "999p:1m"}, ("ladder", "invalid-value")),
        ({"ladder": "240p:1m", "max_quality": "480p"}, ("max-quality", "conflict")),
    ]
    for given, why in refusals:
        with refused(*why):
            parse(**given)


def test_records_have_the_length_of_segments_that_is_not_the_default() -> None:
    assert "segment_s" not in parse().record() and parse(segment="2s") == parse()
    options = parse(service="iptv", segment="500ms")
    assert options.record()["segment_s"] == 0.5
    assert restored(json.loads(json.dumps(options.record()))) == options


def test_live_runs_take_the_published_time_unless_told_otherwise() -> None:
    live: dict[str, Any] = {"service": "youtube", "live": True, "lab": "apu"}
    assert [parse(**live).seconds, parse(**live, timeline="short").seconds, parse().seconds] == [420, 140, 180]
    assert parse(lab="virtual").seconds == 140
    assert parse_options(live, {"timeline": "solo:9"}).seconds == 9


def test_a_browser_of_the_users_is_no_simulated_machines(tmp_path: Path) -> None:
    (program := tmp_path / "chrome").touch(0o700)
    own = {"browser": str(program)}
    assert parse_options({}, own).browser is None
    assert parse_options({"lab": "virtual"}, own).browser == program
    with refused("browser", "conflict", "another lab"):
        parse(**own)
    with refused("browser", "not-a-file", "/none"):
        parse(browser="/none", lab="virtual")


def test_what_is_watched_from_outside_of_the_lab(tmp_path: Path) -> None:
    (page := tmp_path / "index.html").touch()
    assert not parse().elsewhere and not parse(service="page", url=str(page)).elsewhere
    assert parse(service="page", url="https://tv.example/", lab="apu").elsewhere
    assert parse(service="youtube", live=True, lab="apu").elsewhere


def test_of_a_black_box_nothing_is_asked_but_what_it_is_said_to_have() -> None:
    unknown, said = parse(lab="black-box", service="o2tv"), parse(lab="black-box", rate="20mbit")
    for options in (unknown, said):
        assert options.qdisc_down is options.qdisc_up is options.rtt_us is options.rate_up_bps is None
        assert restored(json.loads(json.dumps(options.record()))) == options
        assert options.record()["qdisc_down"] is None and options.needed_bytes > 300 << 20
    assert (unknown.rate_down_bps, said.rate_down_bps) == (None, 20_000_000)
    assert unknown.cell == "o2tv black-box" and said.replace(box="vendor CPE").cell == "youtube vendor CPE 20mbit"


def test_a_black_boxs_own_is_passed_over_as_a_default() -> None:
    own = {"qdisc": "pie", "rate": "5mbit", "rtt": "9ms", "jitter-gate": "3ms", "loss": "1%"}
    assert parse_options({"lab": "black-box"}, own) == parse(lab="black-box", rate="5mbit")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("qdisc", "pie"), ("qdisc-up", "pie"), ("rtt", "9ms"), ("loss", "1%"), ("jitter", "1ms"), ("bursts", "5ms"),
        ("rate", "10mbit,30s:5mbit"), ("rate-up", "9mbit,3s:5mbit"), ("jitter-gate", "9ms"), ("live", True),
        ("kernel-source", "linux.tar.xz"),
    ],
)  # fmt: skip
def test_what_a_black_box_cannot_be_asked_is_refused(option: str, value: Any) -> None:
    with refused(option, "conflict", f"--{option}: "):
        parse(lab="black-box", **{option: value})


def test_a_box_keeps_the_rate_that_a_default_says_it_has() -> None:
    """A night's cells are given their options as defaults."""
    options = parse_options({}, {"lab": "black-box", "rate": "20mbit", "rate-up": "5mbit,30s:1mbit"})
    assert (options.rate_down_bps, options.rate_up_bps, options.rate_steps) == (20_000_000, None, ())


@pytest.mark.parametrize("service", ["call", "youtube", "o2tv"])
def test_a_service_plays_in_the_browser_that_is_asked_for(service: str) -> None:
    options = parse(service=service, lab="virtual", browser="/usr/bin/env")
    assert SERVICES[service].from_options(options).browser == Path("/usr/bin/env")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "given", [{"service": "game"}, {"contenders": "cubic,cubic+game"}, {"timeline": "solo:5,game:5"}]
)
def test_the_dscp_is_that_of_the_victim_or_of_a_competing_game(given: dict[str, str]) -> None:
    options = parse_options({**given, "game-dscp": "45"})
    assert options.game_dscp == 45 == options.record()["game_dscp"]
    assert "game_dscp" not in parse_options(given).record()


@pytest.mark.parametrize("file", ["{}.toml", "my-{}.toml", "{}", "tools/{}/it.toml"])
def test_a_program_with_the_name_of_an_application_is_none(file: str) -> None:
    with refused("game-dscp", "no-effect", "only on game"):
        parse(contenders=f"cubic+program:{file.format('game')}", game_dscp="45")
    with refused("driver", "no-effect", "shows no picture"):
        parse(service="game", timeline=f"solo:9,program:{file.format('video')}@up:9", driver="selenium")
