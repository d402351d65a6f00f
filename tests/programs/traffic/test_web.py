# SPDX-License-Identifier: Apache-2.0
"""Web flows over the loopback: they begin when the seed says, and each brings the bytes that it says."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from sojourn.traffic import web

PROGRAM = [sys.executable, "-P", web.__file__]
SOON = "i"
"""A seed whose first two flows come within a second."""
CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
"""The host's own, which any user may ask for."""


@pytest.fixture
def at() -> tuple[str, str]:
    """An address and a free port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return "127.0.0.1", str(free.getsockname()[1])


def test_a_seed_says_when_and_how_much() -> None:
    drawn = list(islice(web.arrivals("a", 3.0), 5000))
    assert drawn == list(islice(web.arrivals("a", 3.0), 5000)) != list(islice(web.arrivals("b", 3.0), 5000))
    assert drawn[0][0] > 3 and (drawn[-1][0] - 3) / 5000 == pytest.approx(web.MEAN_GAP_S, rel=0.05)
    lengths = sorted(size for _, size in drawn)
    assert lengths[250] == pytest.approx(web.P5_BYTES, rel=0.15)
    assert lengths[4750] == pytest.approx(web.P95_BYTES, rel=0.15)


def test_two_programs(at: tuple[str, str]) -> None:
    with subprocess.Popen([*PROGRAM, "serve", *at, f"--control={CONTROL}"], stderr=-1, text=True) as server:
        assert server.stderr and server.stderr.readline() == "listening\n"
        with subprocess.Popen([*PROGRAM, "fetch", *at, f"--seed={SOON}"], stdout=-1, text=True) as user:
            assert user.stdout
            told = [json.loads(user.stdout.readline()) for _ in range(2)]
            user.send_signal(signal.SIGINT)
        again = subprocess.run([*PROGRAM, "serve", *at], capture_output=True, text=True, check=False, timeout=20)
        server.terminate()
    assert user.returncode == 0
    assert sorted((row["at"], row["bytes"]) for row in told) == list(islice(web.arrivals(SOON), 2))
    assert all(row["port"] and row["fct_s"] > 0 for row in told)
    assert again.returncode == 1 and again.stderr.startswith(f"serve {at[0]}:{at[1]}: ")


def test_what_nobody_answers_does_not_end(at: tuple[str, str]) -> None:
    with subprocess.Popen([*PROGRAM, "fetch", *at, f"--seed={SOON}"], stdout=-1, text=True) as user:
        assert user.stdout and json.loads(user.stdout.readline())["fct_s"] is None
        user.send_signal(signal.SIGINT)
