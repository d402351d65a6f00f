# SPDX-License-Identifier: Apache-2.0
"""Parts of the checks of a physical lab: a check as a finding, and what several checks read from a machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sojourn.bottleneck.lease import owner_of
from sojourn.hardware.lab.lab_file import LabFile
from sojourn.hardware.machine.ip import IP_VERSIONS, IpVersion
from sojourn.hardware.machine.offloads import offloads_on
from sojourn.hardware.machine.place import Place
from sojourn.harness.lab.doctor import Finding, Verdict

INSTALL_ETHTOOL = "as root there: apt-get install ethtool (OpenWrt: opkg install ethtool)"

INTERNET = "192.0.2.1"
"""An address of the internet, to which nothing is sent."""


class Wrong(RuntimeError):
    """A check failed: what was found, `fix`, and `verdict`, its severity."""

    def __init__(self, found: str, fix: str, verdict: Verdict = "missing") -> None:
        super().__init__(found)
        self.fix, self.verdict = fix, verdict


def finding_of(subject: str, look: Callable[..., str], *args: Any, fix: str = "see the message") -> Finding:
    """Call `look` and return its finding; `fix` is the fix for any failure of `look`."""
    try:
        return Finding(subject, "ok", look(*args).strip())
    except Wrong as wrong:
        return Finding(subject, wrong.verdict, str(wrong), wrong.fix)
    except (RuntimeError, OSError) as failed:
        return Finding(subject, "missing", str(failed), fix)
    except (ValueError, LookupError) as strange:
        return Finding(subject, "missing", f"an answer that cannot be parsed: {strange!r}", fix)


def require_free(place: Place) -> str:
    """Return `free`. Raises Wrong, as a note, if a run has claimed a machine."""
    if owner := owner_of(place):
        raise Wrong(f"in use by {owner}", "wait for that run; the next run undoes what a dead run left", "note")
    return "free"


def addresses_of(place: Place, version: IpVersion) -> dict[str, list[str]]:
    """Return interface → its addresses of an IP version, link-local ones last."""
    devices = _json(place, ["ip", "-j", f"-{version}", "address", "show"])
    links = {str(device["ifname"]): list[str]() for device in _json(place, ["ip", "-j", "link", "show"])}
    return links | {
        str(device["ifname"]): [str(a["local"]) for a in sorted(device.get("addr_info", []), key=_of_link)]
        for device in devices
        if device
    }


def _of_link(address: Mapping[str, Any]) -> bool:
    return address.get("scope") == "link"


def route_to(place: Place, to: str) -> dict[str, Any]:
    """Return the route of a machine to an address, as `ip -j route get` prints it; empty if there is none."""
    return next(iter(_json(place, ["ip", "-j", "route", "get", to])), {})


def matched_route(place: Place, to: str) -> dict[str, Any]:
    """Return the entry of a machine's routing table for an address; `dst` is a prefix or "default"."""
    return next(iter(_json(place, ["ip", "-j", "route", "get", "fibmatch", to])), {})


def _json(place: Place, command: Sequence[str]) -> list[dict[str, Any]]:
    try:
        return list(json.loads(place.run(command) or "[]"))
    except ValueError as wrong:
        raise Wrong(f"{' '.join(command)} printed no JSON", "as root there: apt-get install iproute2") from wrong


def measured(file: LabFile, name: str) -> set[str]:
    """Return what a machine has of the measured path: the router its interfaces, a host its addresses."""
    if name == "router" and file.router:
        return {file.router.lan, file.router.wan}
    return {host.address for host in file.hosts.values()}


def require_management(place: Place, path: Collection[str]) -> str:
    """Return where ssh arrives. Raises Wrong if that is one of `path`: it would share the bottleneck."""
    words = place.run(["sh", "-c", 'echo "$SSH_CONNECTION"']).split()
    if len(words) < 3:
        return "arrives at no measured path"
    here = words[2].partition("%")[0]
    mine = [it for version in IP_VERSIONS for it in addresses_of(place, version).items()]
    dev = next((dev for dev, held in mine if here in held), "")
    if {dev, here} & {*path}:
        raise Wrong(
            f"arrives at {here} on {dev}",
            "name the machine by an address of a management network: commands and captures would wait in the queue "
            "under test and compete there",
        )
    return f"arrives at {dev or 'no measured path'}"


def require_ethernet(place: Place, device: str) -> str:
    """Return `ether` if an interface is Ethernet, which alone a score can read from a capture. Raises Wrong."""
    kind = next((str(link["link_type"]) for link in _json(place, ["ip", "-j", "link", "show", "dev", device])), "none")
    if kind != "ether":
        fix = "scores read Ethernet frames only: connect by plain Ethernet, or capture at the hosts (interface)"
        raise Wrong(f"{device} is no Ethernet interface: link/{kind}", fix)
    return kind


def require_no_offloads(place: Place, *devices: str) -> str:
    """Return `off` if no offload of these interfaces changes packets. Raises Wrong."""
    there = addresses_of(place, 4)
    if missing := [device for device in devices if device not in there]:
        raise Wrong(f"no interface {', '.join(missing)}", f"available: {', '.join(sorted(there))}")
    still_on = offloads_on(place, *devices)
    if still_on is None:
        raise Wrong("unknown: ethtool is missing", INSTALL_ETHTOOL)
    if still_on:
        commands = [f"ethtool -K {what.replace(': ', ' ')} off" for what in still_on]
        raise Wrong(f"on: {', '.join(still_on)}", f"as root there: {' && '.join(commands)}")
    return "off"
