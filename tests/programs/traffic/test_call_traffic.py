# SPDX-License-Identifier: Apache-2.0
"""The talker's schedule by hand-computed values, and a real talk over the loopback."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading

import pytest

from sojourn.traffic import call_traffic


def test_the_mean_over_the_key_frames_interval_is_the_bit_rate() -> None:
    schedule = call_traffic.Schedule(bitrate_bps=2_400_000, fps=30, key_every=10, key_factor=11)
    # 10 kB a frame on average: 10 frames are 100 kB = 9 others + a key frame of 11 others = 20 others of 5 kB.
    assert schedule.frame_bytes(0) == schedule.frame_bytes(10) == 55_000
    assert schedule.frame_bytes(1) == 5_000
    assert sum(map(schedule.frame_bytes, range(30))) == 300_000
    assert list(schedule.packets(1)) == [1200, 1200, 1200, 1200, 200]


def test_a_talk_arrives_whole_in_order_and_not_before_its_time() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as at:
        at.bind(("127.0.0.1", 0))
        at.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        sent: list[int] = []
        schedule = call_traffic.Schedule(bitrate_bps=1_000_000, fps=30)
        talker = threading.Thread(target=lambda: sent.append(call_traffic.talk(at.getsockname(), schedule, 0.5)))
        talker.start()
        heard = call_traffic.listen(at, 5)
        talker.join()
    assert [heard["sent"]] == sent
    assert [number for number, *_ in heard["packets"]] == list(range(sent[0]))
    found = call_traffic.summary(**heard)
    assert found["loss"] == 0
    assert 0 <= (found["delay_p50_ms"] or -1) <= (found["delay_max_ms"] or -1)
    first, last = heard["packets"][0], heard["packets"][-1]
    assert (last[2] - first[2]) / 1e9 > 14 / 30 - 0.02  # late on a busy host, never early


def test_loss_and_percentiles() -> None:
    packets = [(n, 0, 0, (n + 1) * 1_000_000) for n in range(100) if n not in (3, 4)]
    found = call_traffic.summary(100, packets)
    assert found["loss"] == pytest.approx(0.02)
    # Of the 100 that were sent the 99th never came.
    assert (found["delay_p50_ms"], found["delay_p99_ms"], found["delay_max_ms"]) == (52, None, 100)
    assert (
        call_traffic.summary(99, packets)["delay_p99_ms"] is None
        and call_traffic.summary(98, packets)["delay_p99_ms"] == 100
    )
    assert call_traffic.summary(None, packets)["loss"] is None


@pytest.mark.parametrize(("sent", "loss"), [(5, 1.0), (0, None)])
def test_a_talk_of_which_only_the_farewell_arrives_has_no_delays(sent: int, loss: float | None) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as at:
        at.bind(("127.0.0.1", 0))
        at.sendto(call_traffic._HEADER.pack(call_traffic._LAST, sent, 0), at.getsockname())
        heard = call_traffic.listen(at, 5)
    delays = dict.fromkeys(("delay_p50_ms", "delay_p99_ms", "delay_max_ms"))
    assert call_traffic.summary(**heard) == {"loss": loss} | delays


def test_a_packet_that_left_as_its_talker_was_interrupted_counts_as_sent() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as at:
        at.bind(("127.0.0.1", 0))
        for number, frame in ((0, 0), (1, 0), (call_traffic._LAST, 1)):
            at.sendto(call_traffic._HEADER.pack(number, frame, 0), at.getsockname())
        heard = call_traffic.listen(at, 5)
    assert heard["sent"] == 2 and call_traffic.summary(**heard)["loss"] == 0


def test_nobody_talks() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as at:
        at.bind(("127.0.0.1", 0))
        with pytest.raises(TimeoutError):
            call_traffic.listen(at, 0.1)


def test_two_programs(tmp_path: object) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    program = [sys.executable, "-P", call_traffic.__file__]
    with subprocess.Popen([*program, "listen", "127.0.0.1", port], stdout=-1, stderr=-1, text=True) as listener:
        assert listener.stderr and listener.stderr.readline() == "listening\n"
        command = [*program, "talk", "127.0.0.1", port, "--seconds=0.3", "--ecn=ect1", "--bitrate=1e6"]
        sent = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout)
        heard = json.loads(listener.communicate(timeout=20)[0])
    assert heard["sent"] == sent["sent"] > 0
    assert heard["summary"]["loss"] == 0
