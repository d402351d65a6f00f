# SPDX-License-Identifier: Apache-2.0
"""A Linux router, virtual or physical, driven by ip and tc at its `sojourn.hardware.machine.place.Place`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby

from sojourn.bottleneck import nat, readback, remedies, shaper, spec
from sojourn.bottleneck.spec import Bottleneck
from sojourn.hardware.machine import network_cards
from sojourn.hardware.machine.place import CommandError, Place

LINK_SHARE = 0.95
"""Of a link's speed: the highest rate at which the shaper is the bottleneck."""
_FAILED_LINE = re.compile(r"Command failed -:(\d+)")


class RouterError(RuntimeError):
    """The router rejected a command; the message has the command and the router's reason."""


class Router:
    """The host of the bottleneck. Every call of `place.run` carries many commands.

    `masqueraded` are addresses behind `lan` that reach the internet with the router's address; only their packets are
    shaped or delayed. To `unmasked` they keep their own address. With `cards`, its interfaces are network cards, which
    must be faster than any rate.
    """

    def __init__(
        self,
        place: Place,
        lan: str = "lan",
        wan: str = "wan",
        masqueraded: Sequence[str] = (),
        unmasked: Sequence[str] = (),
        *,
        cards: bool = False,
    ) -> None:
        self.place, self.lan, self.wan, self.cards = place, lan, wan, cards
        self.links_bps: dict[str, int] = {}
        """The speeds that the cards had negotiated when the bottleneck was set up, bit/s; unknown ones are missing."""
        self.steps_bps: Sequence[int] = ()
        """The rates that `set_rate` will set later, bit/s: `apply` refuses those that a link hardly carries."""
        self._masqueraded, self._unmasked = tuple(dict.fromkeys(masqueraded)), tuple(unmasked)

    def apply(self, bottleneck: Bottleneck) -> None:
        """Set up `bottleneck` on the router, whatever its previous state, and verify it.

        Qdiscs are replaced and never changed: `tc qdisc change` of dualpi2 under load can crash kernels up to 7.0.
        Raises `RouterError` and `sojourn.bottleneck.readback.ReadbackError`.
        """
        if self.cards:
            speeds = {dev: network_cards.speed_bps(self.place, dev) for dev in (self.lan, self.wan)}
            self.links_bps = {dev: speed for dev, speed in speeds.items() if speed}
            ways = (bottleneck.down, bottleneck.up)
            rates = (min(way.rate_bps, way.qdisc.shapes_bps or way.rate_bps) for way in ways)
            self._require_links(max(*rates, *self.steps_bps))
        self._take_away()
        if self._masqueraded:
            table = nat.table(self.lan, self.wan, self._masqueraded, self._unmasked)
            try:
                self.place.run(["nft", "-f", "-"], input=table)
            except CommandError as failed:
                raise RouterError(str(failed)) from failed
        commands = spec.commands(self.effective(bottleneck), self.lan, self.wan, self._masqueraded)
        for dev, way in ((self.lan, bottleneck.down), (self.wan, bottleneck.up)):
            commands += readback.queue_filters(dev, way.qdisc)
        for program, group in groupby(commands, key=lambda command: command[0]):
            self._batch(program, [command[1:] for command in group])
        self.verify(bottleneck)

    def verify(self, bottleneck: Bottleneck) -> None:
        """Raise `sojourn.bottleneck.readback.ReadbackError` if the router is not set up as `bottleneck`."""
        ways = (bottleneck.down, bottleneck.up)
        filtered = any(way.qdisc.filters(readback.QUEUE) for way in ways)
        state, requested = self.state(queue_filters=filtered), self.effective(bottleneck)
        with self._understood():
            differences = readback.differences(requested, state, self.lan, self.wan, self._masqueraded)
        if self._masqueraded and nat.TABLE not in self.place.run(["nft", "list", "tables", "ip"]).split():
            differences.append(f"nftables: requested table ip {nat.TABLE}, found none")
        if differences:
            raise readback.ReadbackError(differences)

    def effective(self, bottleneck: Bottleneck) -> Bottleneck:
        """Return `bottleneck` as this router sets it up: a router that masquerades delays only upwards.

        Raises `RouterError` if it cannot.
        """
        try:
            return spec.delayed_upwards(bottleneck) if self._masqueraded else bottleneck
        except ValueError as wrong:
            raise RouterError(f"{self.place.name}: {wrong}") from wrong

    def foreign(self) -> list[tuple[str, str]]:
        """Return the qdiscs configured by others on the router's interfaces, with the command that removes each."""
        state = self.state()
        with self._understood():
            return readback.foreign(state, self.lan, self.wan)

    def undo(self) -> list[str]:
        """Return the commands that undo `apply`; those with nothing to remove fail harmlessly."""
        commands = [*spec.teardown_commands(self.lan, self.wan), *(nat.UNDO if self._masqueraded else [])]
        return [shlex.join(command) for command in commands]

    def clear(self) -> None:
        """Remove shapers, queues and delays. Raises `sojourn.bottleneck.readback.ReadbackError` if any remain."""
        self._take_away()
        state = self.state()
        with self._understood():
            left = readback.leftovers(state, self.lan, self.wan)
        if left:
            raise readback.ReadbackError(left)

    def state(self, *, queue_filters: bool = False) -> readback.State:
        """Read the router's qdiscs, classes and filters in one round trip. Raises `RouterError`."""
        queries = readback.queries(self.lan, self.wan)
        if queue_filters:
            queries += readback.filter_queries(self.lan, self.wan)
        lines = "\n".join(queries) + "\n"
        answers = self.place.run(["tc", "-d", "-j", "-batch", "-"], input=lines)
        with self._understood():
            return readback.state(answers, self.lan, self.wan)

    def set_rate(self, dev: str, rate_bps: int) -> None:
        """Give the shaper on `dev` a new rate (bit/s) under load; the AQM keeps its queue. Raises RouterError."""
        self._require_links(rate_bps)
        self._batch("tc", [shaper.rate_change(dev, rate_bps)[1:]])

    def final_statistics(self) -> str:
        """Return `tc -s -d` of all qdiscs and classes as text, for the evidence."""
        devices = "".join(f"class show dev {dev}\n" for dev in (self.lan, self.wan))
        return self.place.run(["tc", "-s", "-d", "-batch", "-"], input="qdisc show\n" + devices)

    def versions(self) -> dict[str, str]:
        """Return the router's kernel and iproute2 versions."""
        return {
            "kernel": self.place.run(["uname", "-srv"]).strip(),
            "tc": self.place.run(["tc", "-V"]).strip(),
        }

    @contextmanager
    def _understood(self) -> Iterator[None]:
        try:
            yield
        except ValueError as wrong:
            raise RouterError(f"{self.place.name}: cannot parse the output of tc -j: {wrong}") from wrong

    def _require_links(self, rate_bps: int) -> None:
        """Raise RouterError if a link is hardly faster than the shaper, which then is not the bottleneck."""
        for dev, link_bps in self.links_bps.items():
            if rate_bps > LINK_SHARE * link_bps:
                raise RouterError(
                    f"{self.place.name}: {dev} has a link of {link_bps / 1e6:g} Mbit/s, not faster than the rate of "
                    f"{rate_bps / 1e6:g} Mbit/s: check cable and port (ethtool {dev}), or give a rate of at most "
                    f"{LINK_SHARE * link_bps / 1e6:g} Mbit/s"
                )

    def _take_away(self) -> None:
        commands = sorted(spec.teardown_commands(self.lan, self.wan), key=lambda c: c[0], reverse=True)
        for program, group in groupby(commands, key=lambda command: command[0]):
            lines = "".join(" ".join(command[1:]) + "\n" for command in group)
            self.place.run([program, "-force", "-batch", "-"], input=lines, check=False)
        if self._masqueraded:
            for command in nat.UNDO:
                self.place.run(command, check=False)

    def _batch(self, program: str, commands: list[list[str]]) -> None:
        text = "".join(" ".join(command) + "\n" for command in commands)
        try:
            self.place.run([program, "-batch", "-"], input=text)
        except CommandError as failed:
            line = _FAILED_LINE.search(failed.stderr)
            command = " ".join(commands[int(line[1]) - 1]) if line else "-batch -"
            reason = _FAILED_LINE.sub("", failed.stderr).strip().replace("\n", " ")
            if missing := remedies.remedy(command, reason):
                reason = f"{reason.partition(' Usage:')[0]}; {missing}"
            raise RouterError(f"{self.place.name}: {program} {command}: {reason}") from failed
