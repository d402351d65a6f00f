# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from traffic.contender import CONTENDERS
from traffic.program import PROGRAMS, Program


def test_both_command_lines_are_filled_in() -> None:
    program = Program("x", "{program} -l {port}", "{program} {address} {port} -p {from_port}", lambda: Path("x"))
    assert program.commands("./x", "10.0.0.1", 5201, 40000) == ("./x -l 5201", "./x 10.0.0.1 5201 -p 40000")
    assert program.lacking() == ""


def test_a_program_has_no_name_of_a_congestion_control_of_the_kernel() -> None:
    assert {"quic-cubic", "quic-bbr", "webrtc", "scream"} <= PROGRAMS.keys() and not PROGRAMS.keys() & CONTENDERS.keys()
