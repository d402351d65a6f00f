# SPDX-License-Identifier: Apache-2.0
"""Every queue with every parameter, set up by a real tc in simulated time and read back; real_time/ does so by ssh."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from sojourn.bottleneck import readback, shaper
from sojourn.bottleneck.qdiscs import EXAMPLES, parse_qdisc
from sojourn.bottleneck.spec import Direction
from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build.build import ensure_kernel
from tests.lab.simulated import Simulated

pytestmark = pytest.mark.lab

RATES_BPS = (100_000, 1_234_567, 100_000_000, 10_000_000_000)


def test_each_is_read_back_as_requested(tmp_path: Path, subtests: pytest.Subtests) -> None:
    requested = [Direction(rate_bps=10_000_000, qdisc=text) for text in EXAMPLES]
    requested += [Direction(rate_bps=rate, qdisc="fq_codel flows 1") for rate in RATES_BPS]
    queries = shlex.quote("\n".join([*readback.queries("lan"), *readback.filter_queries("lan")]))
    script = ""
    for number, way in enumerate(requested):
        assert way.rate_bps
        queue = parse_qdisc(str(way.qdisc))
        made = [*shaper.commands("lan", way.rate_bps, queue), *readback.queue_filters("lan", queue)]
        made += shaper.teardown_commands("lan")
        *up, down = (shlex.join(["tc", "-n", "router", *words]) for _, *words in made)
        script += "\n".join((*up, f"echo {queries} | tc -n router -d -j -batch - >shown{number}", down)) + "\n"
    folder = Simulated(ensure_kernel(), ensure_guest(), tmp_path).run(script)
    for number, way in enumerate(requested):
        with subtests.test(f"{way.qdisc} {way.rate_bps}"):
            assert readback.shaped("lan", way, readback.state((folder / f"shown{number}").read_text(), "lan")) == []
