# SPDX-License-Identifier: Apache-2.0
"""A real call through a simulated lab: both ends show each other, what the path adds is what is measured, marks are
there, and an end that dies is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sojourn.apps.call import BrowserCall
from sojourn.apps.two_party import FAR
from sojourn.hardware.machine.ip import IP_VERSIONS, IpVersion
from sojourn.harness.lab.switches import PLANS
from sojourn.scoring.packets import latency, pcapng, per_flow
from sojourn.scoring.picture import frames, glass_to_glass
from tests.lab import call_inside
from tests.lab.inside import run_inside
from tests.tiers import first

pytestmark = pytest.mark.lab


def median(screen: Path, camera: Path, told: dict[str, Any]) -> float:
    """The median capture-to-display latency (ms) in the time that was watched."""
    begun, clip = json.loads((screen / "screen.json").read_text())["start"], told["clip"]
    log = glass_to_glass.camera_log(map(json.loads, (camera / "player.jsonl").open()), clip["frames"])
    recording = frames.read_recording(screen / "screen.mp4", begun)
    delays = glass_to_glass.frame_delays(glass_to_glass.shown_frames(recording, log, clip["frames"], clip["fps"]))
    found = latency.percentile(latency.within(delays, [told["window"]]), 50, "delay_ms")
    assert found is not None
    return found


@pytest.mark.parametrize("version", first(1, IP_VERSIONS))
def test_a_call_takes_as_long_as_its_path_and_tells_of_an_end_that_dies(tmp_path: Path, version: IpVersion) -> None:
    """The path is longer towards the client: computing takes no time here, so that both ways differ by that alone."""
    BrowserCall(bitrate_bps=1_000_000).prepare()
    (tmp_path / call_inside.VERSION).write_text(str(version))
    run_inside(Path(call_inside.__file__), tmp_path)
    told = json.loads((tmp_path / "told.json").read_text())
    assert "the other end" in told["failure"]
    down, up = median(tmp_path, tmp_path / FAR, told), median(tmp_path / FAR, tmp_path, told)
    print(f"down {down:.1f} ms, up {up:.1f} ms")
    # Each median is known to a grab of the screen, of which there are 60 a second.
    assert down - up == pytest.approx(call_inside.DOWN_MS - call_inside.UP_MS, abs=1000 / 60)
    assert call_inside.UP_MS < up < 60

    table = pcapng.read(next(tmp_path.glob("server.pcapng*"))).packets
    ends, ports = PLANS[version].ends, told["call"]
    for src, port in ((ends.server, ports["server_port"]), (ends.client, ports["client_port"])):
        sent = per_flow.select(table, src=src, sport=port)
        assert sent.height > 500
        assert set(sent.filter(sent["t_ns"] > told["window"][0] * 1e9)["ecn"]) == {1}
