# SPDX-License-Identifier: Apache-2.0
"""Checks of the router of a physical lab, with the fix for each problem.

Nothing stays changed: queues are tried on a temporary interface.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from sojourn.bottleneck import nat
from sojourn.bottleneck.qdiscs import KINDS, parse_qdisc
from sojourn.bottleneck.remedies import modules_of, words_of
from sojourn.bottleneck.router import LINK_SHARE, Router
from sojourn.hardware.images import tc_objects
from sojourn.hardware.lab.lab_file import FAR, NEAR, LabFile, RouterEntry
from sojourn.hardware.machine.ip import IpVersion
from sojourn.hardware.machine.network_cards import speed_bps
from sojourn.hardware.machine.place import Place
from sojourn.harness.lab.doctor import CLOCK_SOURCE, Finding, Verdict, clock
from sojourn.harness.lab.machine_checks import (
    INSTALL_ETHTOOL,
    INTERNET,
    Wrong,
    addresses_of,
    finding_of,
    require_free,
    require_no_offloads,
    route_to,
)

_TRY = "sojourn-try"
_FORWARDING: Mapping[IpVersion, str] = {4: "net.ipv4.ip_forward", 6: "net.ipv6.conf.all.forwarding"}
#: What the harness needs besides the queue under test, as tc commands on the interface _TRY.
_NEEDED = {
    "htb": f"tc qdisc add dev {_TRY} root handle 1: htb default 10",
    "netem": f"tc qdisc add dev {_TRY} root netem delay 1ms",
    "mirred": f"tc qdisc add dev {_TRY} ingress && tc filter add dev {_TRY} parent ffff: protocol all prio 1 matchall "
    f"action mirred egress redirect dev {_TRY}",
    "flower": f"tc qdisc add dev {_TRY} ingress && tc filter add dev {_TRY} parent ffff: protocol ip prio 1 flower "
    f"src_ip 192.0.2.1 && tc filter add dev {_TRY} parent ffff: protocol ipv6 prio 2 flower ip_proto udp dst_port 9",
}
#: The first that prints classes as JSON.
_IPROUTE2 = 6, 2
#: Queues that tc does not accept without parameters.
_SMALLEST = {"red": "red limit 150000 avpkt 1000"}


def check_router(file: LabFile, entry: RouterEntry, router: Router, wanted: Sequence[str]) -> Iterator[Finding]:
    """Check a lab's router; `wanted` are queues that it must support."""
    place = router.place
    for side, names in (("lan", NEAR), ("wan", FAR)):
        subject = f"router: {side} {getattr(entry, side)}"
        yield finding_of(subject, _side, file, entry, place, side, names)
    yield finding_of("router: links", _links, place, entry.lan, entry.wan)
    yield finding_of("router: flow control", _flow_control, place, entry.lan, entry.wan)
    yield finding_of("router: clock source", _clock_source, place)
    yield finding_of("router: forwarding", _forwarding, place, file.ip_version)
    yield finding_of("router: offloads", require_no_offloads, place, entry.lan, entry.wan)
    yield finding_of("router: tc", _tc, place, fix="as root there: apt-get install iproute2")
    yield from _queues(place, wanted)
    yield finding_of("router: free", _free, router)
    if entry.nat:
        yield finding_of(
            "router: nat", _nat, file, entry, place, fix="install nftables there; its kernel needs NF_NAT and NFT_MASQ"
        )


def _side(file: LabFile, entry: RouterEntry, place: Place, side: str, names: Sequence[str]) -> str:
    mine = getattr(entry, side)
    addresses = addresses_of(place, file.ip_version)
    if mine not in addresses:
        there = ", ".join(sorted(dev for dev, held in addresses.items() if held))
        raise Wrong(f"no interface {mine}", f"[router] {side}: one of {there}")
    for name in names:
        address = file.hosts[name].address
        dev = route_to(place, address).get("dev")
        if dev == {"lan": entry.wan, "wan": entry.lan}[side]:
            raise Wrong(f"{name} ({address}) is behind {dev}", "swap lan and wan")
        if dev != mine:
            raise Wrong(f"{name} ({address}) is behind {dev}", f"add a route there: ip route add {address} dev {mine}")
    if not addresses[mine]:
        raise Wrong(f"no IPv{file.ip_version} address", f"as root there: ip address add … dev {mine}")
    return f"{', '.join(addresses[mine])}; {' and '.join(names)} behind it"


def _links(place: Place, *devices: str) -> str:
    speeds = {device: speed_bps(place, device) for device in devices}
    known = [speed for speed in speeds.values() if speed]
    text = ", ".join(f"{dev} {f'{bps / 1e6:g} Mbit/s' if bps else 'unknown'}" for dev, bps in speeds.items())
    return text + (f": rates up to {LINK_SHARE * min(known) / 1e6:g}mbit" if known else "")


def _flow_control(place: Place, *devices: str) -> str:
    """Check that no link pauses: a full queue would then stand in the neighbour, where nobody sees it."""
    if not place.run(["sh", "-c", "command -v ethtool"], check=False):
        raise Wrong("unknown: ethtool is missing", INSTALL_ETHTOOL, "note")
    said = {device: place.run(["ethtool", "-a", device], check=False) for device in devices}
    pausing = [device for device, text in said.items() if re.search(r"^[RT]X:\s+on$", text, re.MULTILINE)]
    if pausing:
        commands = (f"ethtool -A {device} autoneg off rx off tx off" for device in pausing)
        raise Wrong(f"on: {', '.join(pausing)}", f"as root there: {' && '.join(commands)}", "note")
    return "off" if any(said.values()) else "none"


def _clock_source(place: Place) -> str:
    finding = clock(place.run(["cat", str(CLOCK_SOURCE)]).strip())
    if finding.verdict != "ok":
        raise Wrong(finding.found, finding.fix, finding.verdict)
    return finding.found


def _forwarding(place: Place, version: IpVersion) -> str:
    name = _FORWARDING[version]
    if place.run(["cat", f"/proc/sys/{name.replace('.', '/')}"]).strip() != "1":
        raise Wrong("off", f"as root there: sysctl -w {name}=1; permanently: a file in /etc/sysctl.d/")
    return "on"


def _tc(place: Place) -> str:
    said = place.run(["tc", "-V"])
    have = tuple(int(part) for part in re.findall(r"\d+", "".join(re.findall(r"iproute2-v?([\d.]+)", said))))
    if have < _IPROUTE2:
        need = ".".join(map(str, _IPROUTE2))
        fix = (
            f"install iproute2 {need} or newer there (Debian 12: from bookworm-backports), which prints classes as JSON"
        )
        raise Wrong(said.strip(), fix)
    return said


def _queues(place: Place, wanted: Sequence[str]) -> Iterator[Finding]:
    if (free := finding_of("router: queues", require_free, place)).verdict != "ok":
        yield free
        return
    texts = dict(zip(KINDS, KINDS, strict=True)) | {parse_qdisc(text).kind: text for text in wanted}
    tries = _NEEDED | {
        kind: f"tc qdisc add dev {_TRY} root {' '.join(parse_qdisc(_SMALLEST.get(text, text)).tc_args())}"
        for kind, text in texts.items()
    }
    undo = f"tc qdisc del dev {_TRY} root; tc qdisc del dev {_TRY} ingress"
    remove = f"ip link del {_TRY} 2>/dev/null"
    script = f"{remove}; trap '{remove}' EXIT PIPE HUP TERM\nip link add {_TRY} type ifb || exit 0; echo ifb\n"
    script += "".join(f"{command} && echo {kind}; {undo}\n" for kind, command in tries.items())
    accepted = place.run(["sh", "-c", script], check=False).split()
    if missing := [kind for kind in ("ifb", *_NEEDED) if kind not in accepted]:
        yield Finding("router: needs", "missing", f"no {', '.join(missing)}", _fix(missing))
        if "ifb" in missing:
            return
    else:
        yield Finding("router: needs", "ok", f"ifb, {', '.join(_NEEDED)}")
    kinds = [kind for kind in texts if kind in accepted]
    missing = [kind for kind in texts if kind not in accepted]
    must = [kind for kind in missing if any(parse_qdisc(text).kind == kind for text in wanted)]
    text = ", ".join(kinds) + (f"; no {', '.join(missing)}" if missing else "")
    verdict: Verdict = "missing" if must else "note" if missing else "ok"
    yield Finding("router: queues", verdict, text, _fix(must or missing) if missing else "")


def _fix(kinds: Sequence[str]) -> str:
    words = [kind for kind in kinds if kind in (*tc_objects.KINDS, "dualpi2")]
    return modules_of(kinds) + (f"; for tc: {words_of(words)}" if words else "")


def _free(router: Router) -> str:
    require_free(router.place)
    if foreign := router.foreign():
        queues, commands = zip(*foreign, strict=True)
        raise Wrong(f"queues set up by others: {', '.join(queues)}", f"as root there: {' && '.join(commands)}")
    return "nobody's queues"


def _nat(file: LabFile, entry: RouterEntry, place: Place) -> str:
    near, far = ([file.hosts[name].address for name in names] for names in (NEAR, FAR))
    place.run(["nft", "-c", "-f", "-"], input=nat.table(entry.lan, entry.wan, near, far))
    default = route_to(place, INTERNET).get("dev")
    if default != entry.wan:
        raise Wrong(f"the default route is {default}", f"set it to {entry.wan}: internet traffic must be shaped")
    return f"masquerades {' and '.join(NEAR)} by {entry.wan}"
