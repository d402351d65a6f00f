# SPDX-License-Identifier: Apache-2.0
"""The simulated lab inside the simulated machine: every place is a network namespace of its kernel."""

from __future__ import annotations

from contextlib import ExitStack

from sojourn.bottleneck.impairment import Impairment, bunched
from sojourn.bottleneck.router import Router
from sojourn.hardware.machine.ip import IpVersion
from sojourn.hardware.machine.namespaces import Namespaces
from sojourn.hardware.machine.place import Place
from sojourn.harness.lab.contract import Lab, MadeLab, Tap
from sojourn.harness.lab.switches import HUB, PLANS, address, address_router, cable

_ENDS = ("client", "receiver", "server", "sender")
#: A distribution's default: hosts accept ECN if requested, and request it only for a contender.
_END_SETTINGS = {"net/ipv4/tcp_ecn": "2", "net/ipv4/tcp_no_metrics_save": "1"}
_ROUTER_SETTINGS = {"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1"}


class SimLab(MadeLab):
    """Set up the lab from namespaces of this kernel; a context manager that yields a `Lab`.

    Its hosts release packets at random intervals of up to `bunching_us` (µs), before the captures see them; 0: at once.
    Raises `sojourn.hardware.machine.process.ProcessError` and `sojourn.hardware.machine.place.CommandError`.
    """

    def __init__(self, version: IpVersion = 4, bunching_us: int = 0) -> None:
        super().__init__()
        self._plan, self._bunching_us = PLANS[version], bunching_us

    def __enter__(self) -> Lab:
        with ExitStack() as stack:
            spaces = stack.enter_context(Namespaces([HUB, "router", *_ENDS], shared=True))
            cable(spaces)
            for end in _ENDS:
                address(spaces[end], end, self._plan)
                if (release := bunched(Impairment(), self._bunching_us)).needed:
                    spaces[end].run(["tc", "qdisc", "add", "dev", "eth0", "root", *release.tc_args()])
                _set(spaces[end], _END_SETTINGS)
            address_router(spaces["router"], self._plan)
            _set(spaces["router"], _ROUTER_SETTINGS)
            self._stack = stack.pop_all()
        return Lab(
            name="sim",
            client=spaces["client"],
            server=spaces["server"],
            sender=spaces["sender"],
            receiver=spaces["receiver"],
            router=Router(spaces["router"]),
            client_tap=Tap(spaces[HUB], "lan-router"),
            server_tap=Tap(spaces[HUB], "wan-router"),
            addresses=self._plan.ends,
            real_time=False,
            bunching_us=self._bunching_us,
        )


def _set(place: Place, settings: dict[str, str]) -> None:
    place.run(["sh", "-c", "".join(f"echo {value} >/proc/sys/{name}\n" for name, value in settings.items())])
