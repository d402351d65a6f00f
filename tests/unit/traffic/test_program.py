# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from sojourn.traffic.contender import CONTENDERS
from sojourn.traffic.program import PROGRAMS, Program, rust_package


def test_both_command_lines_are_filled_in() -> None:
    program = Program("x", "{program} -l {port}", "{program} {address} {port} -p {from_port}", lambda: Path("x"))
    assert program.commands("./x", "10.0.0.1", 5201, 40000) == ("./x -l 5201", "./x 10.0.0.1 5201 -p 40000")
    assert program.missing_tools() == ""


def test_a_program_has_no_name_of_a_congestion_control_of_the_kernel() -> None:
    known = {"quic-cubic", "quic-bbr", "quic-bbr2", "quic-bbr3", "quic-ledbatpp", "quic-prague", "udp-prague", "webrtc"}
    known |= {"scream", "scream2", "scream2-call"}
    assert known <= PROGRAMS.keys() and not PROGRAMS.keys() & CONTENDERS.keys()


def test_a_program_is_named_by_its_executable_and_command_lines(tmp_path: Path) -> None:
    for name, text in (("one", "1"), ("same", "1"), ("other", "2")):
        (tmp_path / name).write_text(text)

    def program(name: str) -> Program:
        return Program("x", "{program}", "{program}", lambda: tmp_path / name)

    one, same, other = program("one"), program("same"), program("other")
    assert one.digest() == same.digest() != other.digest()
    assert Program("x", "{program} -4", "{program}", one.ensure).digest() != one.digest()
    assert program("gone").digest() == ""


def test_a_contender_of_ours_has_a_package() -> None:
    assert [rust_package(name) for name in ("quic-bbr2", "quic-bbr3", "webrtc", "udp-prague", "cubic")] == [
        "quiche", "noq", "", None, None,
    ]  # fmt: skip
