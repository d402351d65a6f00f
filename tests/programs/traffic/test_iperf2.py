# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sojourn.hardware.machine.cache import BuildError
from sojourn.traffic import iperf2
from tests.refusals import refusal

SENDER = f"""#!{sys.executable}
import socket, sys, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, TOS)
sender.sendto(b"data", (sys.argv[sys.argv.index("-c") + 1], int(sys.argv[sys.argv.index("-p") + 1])))
time.sleep(60)
"""


def sends(tos: int, folder: Path) -> Path:
    (program := folder / "iperf").write_text(SENDER.replace("TOS)", f"{tos})"))
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(("tos", "ecn"), [(0, "not-ect"), (2, "ect0")])
def test_a_build_without_the_option_is_refused_by_its_first_packet(tos: int, ecn: str, tmp_path: Path) -> None:
    with refusal(BuildError, "unsupported", f"sends {ecn}, not ect1"):
        iperf2.check(sends(tos, tmp_path))


@pytest.mark.parametrize("tos", [1, 0xB9])
def test_a_build_that_sends_ect1_is_taken_whatever_its_dscp(tos: int, tmp_path: Path) -> None:
    iperf2.check(sends(tos, tmp_path))
