# SPDX-License-Identifier: Apache-2.0
"""The device between the hosts of a run: a router that is set up and read back, or a black box."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from sojourn.bottleneck.readback import ReadbackError
from sojourn.bottleneck.router import Router
from sojourn.bottleneck.shaper import RateStep
from sojourn.bottleneck.spec import Bottleneck
from sojourn.hardware.machine.clock import Offset, clock_offset
from sojourn.hardware.machine.offloads import offloads_on
from sojourn.hardware.machine.periodic import PeriodicSampler
from sojourn.hardware.machine.place import Place
from sojourn.harness.lab import instruments
from sojourn.harness.lab.contract import Lab
from sojourn.harness.options.model import Options


class PathUnderTest(Protocol):
    """The interface of the path under test."""

    places: Sequence[Place]
    """The places where it can be queried."""
    has_bypass: bool
    """Whether its queue can be bypassed by a probe of the lab itself."""

    def apply(self) -> None:
        """Set it up as requested. Raises `RouterError` and `ReadbackError`."""

    def samplers(self, folder: Path) -> dict[str, PeriodicSampler]:
        """Return its queue samplers, which write to `folder`, by display name; not started."""

    def set_rate(self, way: str, rate_bps: int) -> None:
        """Set a new rate (bit/s) for a direction ("down", "up"). Raises `RouterError`."""

    def described(self) -> dict[str, Any]:
        """Return its description for lab.json."""

    def versions(self) -> dict[str, str]:
        """Return the versions of its programs."""

    def at_end(self, known: Mapping[str, Any], rates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return its final description for lab.json; `known` is the present one, `rates` the steps made.

        Raises `CommandError` and `RouterError` if it does not answer.
        """


def path_under_test(lab: Lab, options: Options) -> PathUnderTest:
    """Return the device between the hosts of a lab, for a run with these options."""
    return ManagedRouter(lab.router, options.bottleneck) if lab.router else BlackBox(lab)


class ManagedRouter:
    """A router that is set up as the bottleneck."""

    has_bypass = True

    def __init__(self, router: Router, requested: Bottleneck) -> None:
        self._router, self._requested = router, requested
        self.places: Sequence[Place] = (router.place,)

    def apply(self) -> None:
        self._router.apply(self._requested)

    def samplers(self, folder: Path) -> dict[str, PeriodicSampler]:
        return {"the router": instruments.queue_sampler(self._router, folder / "qdisc.jsonl")}

    def set_rate(self, way: str, rate_bps: int) -> None:
        self._router.set_rate(self._router.lan if way == "down" else self._router.wan, rate_bps)

    def described(self) -> dict[str, Any]:
        router, requested = self._router, self._requested
        ways = requested.down, requested.up
        return {
            "rtt_ms": requested.rtt_us / 1000,
            "qdisc_down": str(requested.down.qdisc),
            "qdisc_up": str(requested.up.qdisc),
            "interfaces": {"lan": router.lan, "wan": router.wan},
            "delay_down_ms": router.made_of(requested).down.path.delay_us / 1000,
            "path_varies_ms": sum(way.path.varies_us for way in ways) / 1000,
            "path_loss": 1 - math.prod(1 - way.path.loss_percent / 100 for way in ways),
            "offloads_on": offloads_on(router.place, router.lan, router.wan),
        }

    def versions(self) -> dict[str, str]:
        return {f"router {name}": text for name, text in self._router.versions().items()}

    def at_end(self, known: Mapping[str, Any], rates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return whether it is still set up as requested, otherwise the differences; log its final counters."""

        def done(way: str) -> list[RateStep]:
            """Return the rate steps that were made before the run ended."""
            return [RateStep(at_s=0, rate_bps=step["rate_bps"]) for step in rates if step["direction"] == way]

        self._router.final_statistics()
        try:
            self._router.verify(self._requested.stepped(done("down"), done("up")))
        except ReadbackError as changed:
            return {"verified_at_end": str(changed)}
        return {"verified_at_end": True}


class BlackBox:
    """A named black box between two captures: only these and their clocks are known."""

    has_bypass = False
    places: Sequence[Place] = ()

    def __init__(self, lab: Lab) -> None:
        self._name = lab.box
        self._taps = {side: instruments.tap(lab, side) for side in instruments.SIDES}

    def apply(self) -> None:
        pass

    def samplers(self, folder: Path) -> dict[str, PeriodicSampler]:
        return {}

    def set_rate(self, way: str, rate_bps: int) -> None:
        raise AssertionError("a black box has no rate steps")

    def described(self) -> dict[str, Any]:
        return {
            "box": self._name,
            "rtt_ms": None,
            "qdisc_down": None,
            "qdisc_up": None,
            "offloads_on": {side: offloads_on(tap.place, tap.interface) for side, tap in self._taps.items()},
            "tap_clocks": [self._clocks()],
        }

    def versions(self) -> dict[str, str]:
        return {}

    def at_end(self, known: Mapping[str, Any], rates: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        return {"tap_clocks": [*known.get("tap_clocks", ()), self._clocks()]}

    def _clocks(self) -> dict[str, dict[str, float]]:
        """Return the offsets of both captures' clocks to this host's, s; 0 for captures on this host."""
        places = {side: tap.place for side, tap in self._taps.items()}
        clocks = {side: clock_offset(place) if place.remote else Offset(0, 0) for side, place in places.items()}
        return {side: asdict(clock) for side, clock in clocks.items()}
