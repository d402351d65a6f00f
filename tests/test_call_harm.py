# SPDX-License-Identifier: Apache-2.0
"""Harm to a call: what a CUBIC and a Prague download do to a video call, in four queues: freezes, resolution, and how
long each frame takes from the other's camera to the screen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sojourn.apps import SERVICES
from sojourn.apps.two_party import TwoParty
from sojourn.bottleneck.qdiscs import parse_qdisc
from sojourn.harness.options.model import Options


@pytest.mark.experiment
@pytest.mark.parametrize("queue", ["fq_codel flows 1", "dualpi2", "dualpi2 min_qlen_step 1", "pfifo"])
def test_call_harm(experiment: Callable[..., None], options: Options, queue: str) -> None:
    qdisc = parse_qdisc(queue)
    service = options.service if issubclass(SERVICES[options.service], TwoParty) else "call"
    experiment("call-harm", service=service, qdisc_down=qdisc, qdisc_up=qdisc)
