# SPDX-License-Identifier: Apache-2.0
"""Qdiscs and congestion controls of a user's own kernel, by the names that options and records have for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sojourn.bottleneck.qdiscs import QdiscError, marks, parse_qdisc
from sojourn.hardware.kernel_build.kconfig import FRAGMENTS
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import Options
from sojourn.harness.options.own_names import OwnNames, own_names
from sojourn.harness.options.record import restored
from sojourn.harness.options.rules import parse_options
from sojourn.traffic.contender import ACCURATE_ECN, CLASSIC_ECN, CONTENDERS, NO_ECN
from sojourn.traffic.load import parse_load
from tests.refusals import refusal

EXAMPLE = Path(__file__).parents[4] / "docs/examples/kernel"
OWN = {"kernel-source": str(EXAMPLE)}


def parsed(given: dict[str, Any]) -> Options:
    return parse_options(given)


def test_both_names_of_a_qdisc_and_a_contender_are_taken() -> None:
    short = parsed({**OWN, "qdisc": "step limit 100", "contenders": "gentle*2+cubic@up, gentle-noecn"})
    assert str(short.qdisc_down) == str(short.qdisc_up) == "sch_step limit 100"
    loads = [phase.contender for phase in short.phases if phase.contender]
    assert loads == ["tcp_gentle*2+cubic@up", "tcp_gentle-noecn"]
    long = parsed({**OWN, "qdisc": "sch_step limit 100", "timeline": "solo:5,tcp_gentle:5"})
    assert str(long.qdisc_down) == "sch_step limit 100" and long.phases[1].contender == "tcp_gentle"


def test_a_record_is_read_without_the_folder_and_gives_the_same_options() -> None:
    options = parsed({**OWN, "qdisc": "step limit 100 threshold 5ms", "contenders": "gentle"})
    assert Options.model_validate_json(options.for_guest(Path("/evidence")).model_dump_json()).qdisc_down
    assert restored(options.record()) == options


@pytest.mark.parametrize(
    ("given", "option", "named"),
    [
        ({"qdisc": "sch_step"}, "qdisc", "add --kernel-source=FOLDER"),
        ({"contenders": "tcp_gentle"}, "contenders", "add --kernel-source=FOLDER"),
        ({"timeline": "solo:5,tcp_gentle:5"}, "timeline", "add --kernel-source=FOLDER"),
        ({**OWN, "qdisc-up": "sch_stepp"}, "qdisc-up", f"{EXAMPLE} has no qdisc 'stepp'; it has: step"),
        ({**OWN, "contenders": "tcp_rude"}, "contenders", "has no congestion control 'rude'; it has: gentle"),
    ],
)
def test_what_the_kernel_does_not_have_is_refused(given: dict[str, str], option: str, named: str) -> None:
    with refusal(OptionsError, "unknown-value", f"--{option}: ", named):
        parsed(given)


@pytest.mark.parametrize(
    ("given", "option", "named"),
    [
        ({"rate": "10mbit"}, "qdisc", "dualpi2_qprot rate 10mbit"),
        ({"rate": "20mbit", "rate-up": "5mbit"}, "qdisc-up", "dualpi2_qprot rate 5mbit"),
        ({"rate": "20mbit,10s:10mbit"}, "qdisc", "--rate "),
        ({"qdisc": "dualpi2_qprot limit 100"}, "qdisc", "dualpi2_qprot rate 20mbit"),
    ],
)
def test_queue_protection_has_the_rate_of_its_link(given: dict[str, str], option: str, named: str) -> None:
    whole = {
        "kernel-source": str(CHECKOUT / "hardware/kernel/queue_protection"),
        "qdisc": "dualpi2_qprot rate 20mbit no_protect", "rate": "20mbit", "timeline": "solo:20,cubic:20",
    }  # fmt: skip
    assert str(parsed(whole).qdisc_up) == "sch_dualpi2_qprot rate 20mbit no_protect"
    with refusal(OptionsError, "conflict", f"--{option}: ", named):
        parsed(whole | given)


def test_a_router_may_have_any(tmp_path: Path) -> None:
    (tmp_path / "lab.toml").touch()
    options = parsed({"lab": "apu", "lab-file": str(tmp_path / "lab.toml"), "qdisc": "sch_step"})
    assert str(options.qdisc_down) == "sch_step"


@pytest.mark.parametrize(
    ("option", "text", "meant"),
    [
        ("qdisc", "stepp limit 100", "step"),
        ("contenders", "cubic,gentl*2", "gentle"),
        ("timeline", "solo:20,gentle-ecn:20", "gentle"),
    ],
)
def test_a_misspelt_name_is_answered_with_those_of_the_own_kernel(option: str, text: str, meant: str) -> None:
    with refusal(
        OptionsError, "invalid-value", f"--{option}: unknown name", f"did you mean {meant}? {EXAMPLE} has: {meant}"
    ):
        parsed({"kernel-source": str(EXAMPLE), option: text})


def test_words_of_a_load_are_no_misspelt_names() -> None:
    own = own_names(EXAMPLE)
    assert not own.misspelt("solo:20,cubic@up*2+tcp_gentle-noecn:30,video+call+game+rpm+web:10", ["gentle"])


def test_a_single_file_is_no_kernel_source() -> None:
    with refusal(OptionsError, "invalid-value", "--kernel-source: ", "is a single file; give ", str(EXAMPLE)):
        parsed({"kernel-source": str(EXAMPLE / "sch_step.c"), "timeline": "solo:20,cubic:20"})


@pytest.mark.parametrize(
    "text", ["step", "sch_step; reboot", "sch_", "sch_Step", "sch_step " + "x " * 65, "sch_x $HOME"]
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(QdiscError, match=r"^--qdisc: "):
        parse_qdisc(text)


def test_a_qdisc_goes_to_tc_by_its_own_name_and_its_numbers_are_read_back() -> None:
    step = parse_qdisc("sch_step limit 100 threshold 5ms")
    assert (step.kind, step.tc_args()) == ("step", ["step", "limit", "100", "threshold", "5ms"])
    assert step.differences({"limit": 100, "threshold": 5000}) == step.differences({}) == []
    assert step.differences({"limit": 1000}) == ["limit: requested 100, found 1000"]
    assert not step.marks_ce and marks({"kind": "step", "ecn_mark": 3}) == 3 and marks({"kind": "step"}) is None


@pytest.mark.parametrize(
    ("name", "mode", "ect1"),
    [
        ("tcp_gentle", CLASSIC_ECN, False),
        ("tcp_gentle-noecn", NO_ECN, False),
        ("tcp_gentle-accecn", ACCURATE_ECN, False),
        ("tcp_gentle-l4s", ACCURATE_ECN, True),
    ],
)
def test_a_contender_has_its_ecn_mode_in_its_name(name: str, mode: int, ect1: bool) -> None:
    contender = CONTENDERS[name]
    assert name in CONTENDERS and (contender.cc, contender.tcp_ecn, contender.ect1) == ("gentle", mode, ect1)
    assert parse_load(f"{name}*2")[1].contender == name


def test_there_are_no_other_contenders() -> None:
    assert (
        "gentle" not in CONTENDERS and "tcp_" not in CONTENDERS and not any(it.startswith("tcp_") for it in CONTENDERS)
    )
    with pytest.raises(KeyError):
        CONTENDERS["gentle"]


def test_an_optional_contender_needs_its_kernel() -> None:
    folder = FRAGMENTS / "bbr3"
    for names in (OwnNames(), own_names(EXAMPLE)):
        assert f"--kernel-source={folder}" in names.unknown_contender(["cubic", "bbr3"])
    with refusal(OptionsError, "unknown-value", "--contenders: bbr3 is not in this kernel", folder):
        parsed({"contenders": "bbr3"})
    options = parsed({"contenders": "bbr3,cubic", "kernel-source": str(folder)})
    assert {flow.contender for phase in options.phases for flow in phase.load} == {"bbr3", "cubic"}
    assert CONTENDERS["bbr3"].tcp_ecn == NO_ECN and "bbr3" in CONTENDERS and "bbr3" not in list(CONTENDERS)
    assert not own_names(folder).unknown_contender(["tcp_bbr3-l4s"])


def test_a_whole_kernel_may_have_any() -> None:
    tree = own_names(Path("/no/linux-7.3.tar.xz"))
    assert not tree.unknown_contender(["bbr3"])
    assert not tree.unknown_qdisc(parse_qdisc("sch_x")) and not tree.unknown_contender(["tcp_x", "cubic"])
    assert OwnNames().unknown_contender(["cubic", "tcp_x"]).startswith("tcp_x is a congestion control")


@pytest.mark.parametrize("name", ["web", "solo", "short", "mine-l4s"])
def test_a_control_has_no_word_of_sojourn_as_its_name(name: str, tmp_path: Path) -> None:
    (tmp_path / "tcp_mine.c").write_text(f'static struct tcp_congestion_ops mine = {{ .name = "{name}" }};\n')
    with refusal(OptionsError, "invalid-value", "tcp_mine.c", repr(name)):
        parsed({"kernel-source": str(tmp_path)})
