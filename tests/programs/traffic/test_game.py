# SPDX-License-Identifier: Apache-2.0
"""A real game over the loopback; its sizes against the mean of the extreme value distribution."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from itertools import islice
from statistics import fmean
from typing import Any

import pytest

from sojourn.traffic import game

#: Euler's constant: the mean of an extreme value with location a and scale b is a + 0.5772 b.
EULER = 0.5772


@pytest.mark.parametrize(("way", "location", "scale"), [(game.UP, 45, 5.7), (game.DOWN, 120, 36)])
def test_sizes_are_extreme_values_and_derive_from_the_seed(way: str, location: float, scale: float) -> None:
    drawn = list(islice(game.sizes("1", way), 20_000))
    assert fmean(drawn) == pytest.approx(location + EULER * scale, rel=0.01)
    assert min(drawn) >= 12 and max(drawn) <= 1200
    assert drawn[:50] == list(islice(game.sizes("1", way), 50)) != list(islice(game.sizes("2", way), 50))


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_both_ends_send_60_packets_per_second_and_receive_what_is_under_way(
    family: socket.AddressFamily, address: str
) -> None:
    with socket.socket(family, socket.SOCK_DGRAM) as free:
        free.bind((address, 0))
        port = str(free.getsockname()[1])
    ends = []
    for does, ready in (("serve", "listening"), ("play", "playing")):
        command = [sys.executable, "-P", str(game.__file__), does, address, port, "--seed=7", "--dscp=45"]
        ends.append(subprocess.Popen(command, stdout=-1, stderr=-1, text=True))
        assert ends[-1].stderr and ends[-1].stderr.readline() == f"{ready}\n"
    time.sleep(1)
    for end in ends:
        end.send_signal(signal.SIGINT)
    server, client = (list(map(json.loads, end.communicate(timeout=20)[0].splitlines())) for end in ends)
    assert [end.returncode for end in ends] == [0, 0]
    for sender, receiver, way in ((client, server, game.UP), (server, client, game.DOWN)):
        sent: list[dict[str, Any]] = [line for line in sender if "sent" in line]
        received = [line for line in receiver if "received" in line]
        # What a busy host sends late it sends at once: the number follows the time that passed between first and last.
        passed_s = (sent[-1]["t_ns"] - sent[0]["t_ns"]) / 1e9
        assert len(sent) >= 20 and len(sent) - 1 == pytest.approx(60 * passed_s, abs=30)
        assert [line["received"] for line in received] == [line["sent"] for line in sent] == list(range(len(sent)))
        assert [line["sent_ns"] for line in received] == [line["t_ns"] for line in sent]
        assert [line["bytes"] for line in sent] == list(islice(game.sizes("7", way), len(sent)))
