# SPDX-License-Identifier: Apache-2.0
"""The device between the hosts of a run: a router that is set up and read back, or a black box."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sojourn.bottleneck.readback import ReadbackError
from sojourn.bottleneck.router import Router, RouterError
from sojourn.bottleneck.sampler import QdiscSampler
from sojourn.bottleneck.shaper import RateStep
from sojourn.bottleneck.spec import Bottleneck
from sojourn.hardware.kernel_check import last_warning, warnings
from sojourn.hardware.machine.clock import Offset, clock_offset
from sojourn.hardware.machine.network_cards import CardCounters, read_counters
from sojourn.hardware.machine.offloads import offloads_on
from sojourn.hardware.machine.periodic import PeriodicSampler
from sojourn.hardware.machine.place import CommandError, Place
from sojourn.hardware.machine.process import ProcessError
from sojourn.harness.lab.contract import SIDES, Lab, Side, Tap


class PathUnderTest:
    """The device between the hosts; this is one that is neither set up nor read."""

    places: Sequence[Place] = ()
    """The places where it can be queried."""
    has_bypass = False
    """Whether its queue can be bypassed by a probe of the lab itself."""
    taps: Mapping[Side, Tap] = {}
    """Where its packets are captured, once they are."""

    def __init__(self) -> None:
        self.rates: list[dict[str, Any]] = []
        """The rate steps made so far: `t` (Unix s), `direction`, `rate_bps`."""

    def apply(self) -> None:
        """Set it up as requested. Raises `RouterError` and `ReadbackError`."""

    def samplers(self, folder: Path, interval_s: float = 0.1) -> dict[str, PeriodicSampler]:
        """Return its queue samplers, which write to `folder`, by display name; not started."""
        return {}

    def set_rate(self, way: str, rate_bps: int) -> None:
        """Set a new rate (bit/s) for a direction ("down", "up") and record it. Raises `RouterError`."""
        raise AssertionError("no rate steps without a router")

    def described(self) -> dict[str, Any]:
        """Return its description for lab.json."""
        return {}

    def versions(self) -> dict[str, str]:
        """Return the versions of its programs."""
        return {}

    def at_end(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """Return its final description for lab.json; `known` is the present one.

        Raises `ProcessError` if a black box's captures do not answer.
        """
        return {}

    def tap_clocks(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """Return the clocks of captures on two machines for lab.json, now and as `known`; nothing if there is one.

        Raises `ProcessError`.
        """
        places = {tap.place for tap in self.taps.values()}
        if len(places) < 2 or not any(place.remote for place in places):
            return {}
        return {"tap_clocks": [*known.get("tap_clocks", ()), clocks_of(self.taps)]}


class ManagedRouter(PathUnderTest):
    """A router that is set up as the bottleneck."""

    has_bypass = True

    def __init__(self, router: Router, requested: Bottleneck) -> None:
        super().__init__()
        self.router, self._requested, self.places = router, requested, (router.place,)
        self._counted: CardCounters | None = None
        self._warnings: tuple[int, ...] | None = None

    def apply(self) -> None:
        self.router.apply(self._requested)

    def samplers(self, folder: Path, interval_s: float = 0.1) -> dict[str, PeriodicSampler]:
        router = self.router
        return {"the router": QdiscSampler(router.place, folder / "qdisc.jsonl", router.lan, router.wan, interval_s)}

    def set_rate(self, way: str, rate_bps: int) -> None:
        self.router.set_rate(self.router.lan if way == "down" else self.router.wan, rate_bps)
        self.rates.append({"t": time.time(), "direction": way, "rate_bps": rate_bps})

    def described(self) -> dict[str, Any]:
        router, requested = self.router, self._requested
        self.count()
        ways = requested.down, requested.up
        return {
            "rtt_ms": requested.rtt_us / 1000,
            "qdisc_down": str(requested.down.qdisc),
            "qdisc_up": str(requested.up.qdisc),
            "interfaces": {"lan": router.lan, "wan": router.wan},
            "delay_down_ms": router.effective(requested).down.path.delay_us / 1000,
            "path_varies_ms": sum(way.path.varies_us for way in ways) / 1000,
            "path_loss": 1 - math.prod(1 - way.path.loss_percent / 100 for way in ways),
            "offloads_on": offloads_on(router.place, router.lan, router.wan),
            **({"links_bps": router.links_bps} if router.cards else {}),
            **self.tap_clocks({}),
        }

    def count(self) -> None:
        """Begin to count what network cards lose and how often another machine's kernel warns of itself.

        The log gets the cards' pause frames and power saving.
        """
        if self.router.place.remote:
            self._warnings = warnings(self.router.place)
        if not self.router.cards:
            return
        place, devices = self.router.place, (self.router.lan, self.router.wan)
        for device in devices:
            for feature in ("-a", "--show-eee"):
                place.run(["ethtool", feature, device], check=False)
        self._counted = read_counters(place, *devices)

    def lost(self) -> dict[str, Any]:
        """Return what `count` counted, for lab.json.

        Of network cards, the packets lost outside the queue and the busiest processor's share; of another machine's
        kernel, true, or its last warning of itself.

        Raises `CommandError`.
        """
        found: dict[str, Any] = {}
        if self._warnings is not None:
            unchanged = warnings(self.router.place) == self._warnings
            found["router_kernel"] = unchanged or last_warning(self.router.place)
        if self._counted:
            now = read_counters(self.router.place, self.router.lan, self.router.wan)
            found["router_drops"] = now.lost_since(self._counted)
            found["router_busy"] = round(now.busiest_since(self._counted), 3)
        return found

    def versions(self) -> dict[str, str]:
        return {f"router {name}": text for name, text in self.router.versions().items()}

    def verify(self) -> None:
        """Raise `ReadbackError` unless it is set up as requested, with the rates of the steps made."""

        def made(way: str) -> list[RateStep]:
            return [RateStep(at_s=0, rate_bps=step["rate_bps"]) for step in self.rates if step["direction"] == way]

        self.router.verify(self._requested.stepped(made("down"), made("up")))

    def at_end(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """Return whether it is still set up as requested, otherwise why not; log its final counters.

        A router or a clock that does not answer costs only its own entries, and the router's makes the run invalid.
        """
        verified: bool | str = True
        found: dict[str, Any] = {}
        try:
            found |= self.lost()
            self.router.final_statistics()
            self.verify()
        except ReadbackError as changed:
            verified = str(changed)
        except (CommandError, RouterError) as error:
            verified = f"could not be read back: {error}"
        with suppress(ProcessError):
            found |= self.tap_clocks(known)
        return {"verified_at_end": verified, **found}


class BlackBox(PathUnderTest):
    """A named black box between two captures: only these and their clocks are known."""

    def __init__(self, lab: Lab) -> None:
        super().__init__()
        self._name = lab.box
        self.taps = {side: lab.tap(side) for side in SIDES}

    def described(self) -> dict[str, Any]:
        return {
            "box": self._name,
            "rtt_ms": None,
            "qdisc_down": None,
            "qdisc_up": None,
            "offloads_on": {side: offloads_on(tap.place, tap.interface) for side, tap in self.taps.items()},
            **self.tap_clocks({}),
        }

    def at_end(self, known: Mapping[str, Any]) -> dict[str, Any]:
        return self.tap_clocks(known)

    def tap_clocks(self, known: Mapping[str, Any]) -> dict[str, Any]:
        return {"tap_clocks": [*known.get("tap_clocks", ()), clocks_of(self.taps)]}


def clocks_of(taps: Mapping[Side, Tap]) -> dict[str, dict[str, float]]:
    """Return the offsets of captures' clocks to this host's, s; 0 for captures on this host. Raises `ProcessError`."""
    places = {side: tap.place for side, tap in taps.items()}
    clocks = {side: clock_offset(place) if place.remote else Offset(0, 0) for side, place in places.items()}
    return {side: asdict(clock) for side, clock in clocks.items()}
