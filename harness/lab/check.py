# SPDX-License-Identifier: Apache-2.0
"""Check every entry of a physical lab's file on the machines, with the fix for each problem (`sojourn lab check`).

Nothing stays changed: queues are tried on a temporary interface, ECN modes are restored.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from ipaddress import ip_address
from typing import Any

import polars as pl

from sojourn.bottleneck import nat
from sojourn.bottleneck.lease import owner_of
from sojourn.bottleneck.qdiscs import KINDS, parse_qdisc
from sojourn.bottleneck.remedies import modules_of, words_of
from sojourn.bottleneck.router import Router, RouterError
from sojourn.captures.packets import PacketCapture
from sojourn.hardware.images import tc_objects
from sojourn.hardware.lab.console import ConsoleError, answer, open_console
from sojourn.hardware.lab.lab_file import FAR, HOSTS, NEAR, LabFile, LabFileError, MachineEntry, RouterEntry
from sojourn.hardware.lab.power import PowerError, switch
from sojourn.hardware.machine.clock import clock_offset
from sojourn.hardware.machine.ip import IP_VERSIONS, IpVersion, ip_version
from sojourn.hardware.machine.offloads import offloads_on
from sojourn.hardware.machine.place import CommandError, Place
from sojourn.hardware.machine.process import ProcessError
from sojourn.hardware.machine.programs import install_command
from sojourn.hardware.machine.requirements import ToolError
from sojourn.hardware.machine.scratch import scratch_folder
from sojourn.harness.lab.contract import SIDES
from sojourn.harness.lab.doctor import Finding, Verdict
from sojourn.harness.lab.needs import missing, needed
from sojourn.harness.lab.physical import close_master, places_of, router_of, tap
from sojourn.scoring.packets import pcapng
from sojourn.traffic import iperf3, irtt, ports, ss
from sojourn.traffic.contender import ACCURATE_ECN
from sojourn.traffic.probes import PROBES

_CLOCK_S = 0.05
_CAP_NET_ADMIN = 12
_PROBE_S, _CONNECT_MS = 2, 3000
#: Sender and receiver of every flow in a run.
_TALK = ("client", "server"), ("server", "client"), ("sender", "receiver"), ("receiver", "sender")
_PAST_THE_BOX = (
    "the path must lead through the box, routed or bridged without NAT, and its firewall must not block it; if "
    "receiver and client, or sender and server, are different machines, the captures do not see the bulk flow"
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
#: Queues that tc does not accept without parameters.
_SMALLEST = {"red": "red limit 150000 avpkt 1000"}
_SSH_FIXES = {
    "Permission denied": "run `ssh-copy-id {ssh}`, or name the key in ~/.ssh/config: a run cannot type a password",
    "Host key verification failed": "run `ssh {ssh}` once by hand and verify its key",
    "Could not resolve": "set a HostName for {ssh} in ~/.ssh/config, or add a line to /etc/hosts",
}


class Wrong(RuntimeError):
    """A check failed: what was found, `fix`, and `verdict`, its severity."""

    def __init__(self, found: str, fix: str, verdict: Verdict = "missing") -> None:
        super().__init__(found)
        self.fix, self.verdict = fix, verdict


def examine(file: LabFile, wanted: Sequence[str] = ()) -> Iterator[Finding]:
    """Check every entry of a lab file; `wanted` are kinds of queues that the router must support."""
    with ExitStack() as stack:
        places, up = places_of(file), {}
        for name, place in places.items():
            stack.callback(close_master, place)
            finding = _tried(f"{name}: reached", _reached, file, name, place)
            yield finding
            if finding.verdict == "ok":
                up[name] = place
        for name, place in up.items():
            yield _tried(f"{name}: privileges", _privileges, place, "note" if name == "client" else "missing")
            yield _tried(f"{name}: clock", _clock, place)
        gateways: dict[str, Sequence[str]] = {}
        if file.router and "router" in up:
            yield from _router(file, file.router, router_of(file.router, file, places), wanted)
            with suppress(CommandError, Wrong):  # reported above
                addresses, entry = _addresses(up["router"], file.ip_version), file.router
                gateways = {name: addresses.get(entry.lan if name in NEAR else entry.wan, ()) for name in HOSTS}
        for name in (name for name in HOSTS if name in up):
            yield from _host(file, name, up[name], gateways.get(name))
        yield _tried("client: programs", _programs, file.lab)
        yield from _tools(file, up)
        if file.box and up.keys() == places.keys():
            yield _tried(f"{file.box.name}: between the captures", _path_between_taps, file, up, fix=_PAST_THE_BOX)
        yield from _switches(file)


def require_reached(file: LabFile) -> None:
    """Check that every machine of a lab is reachable, before a run begins.

    Raises `sojourn.hardware.lab.lab_file.LabFileError`, with the fix, for the first that is not.
    """
    with ExitStack() as stack:
        for name, place in places_of(file).items():
            stack.callback(close_master, place)
            finding = _tried(f"{name}: reached", _reached, file, name, place)
            if finding.verdict != "ok":
                raise LabFileError(
                    f"--lab-file: {name} is not reachable: {finding.found}; {finding.fix} "
                    "(`sojourn lab check` checks the rest)"
                )


def _tried(subject: str, look: Callable[..., str], *args: Any, fix: str = "see the message") -> Finding:
    """Call `look` and return its finding; `fix` is the fix for any failure of `look`."""
    try:
        return Finding(subject, "ok", look(*args).strip())
    except Wrong as wrong:
        return Finding(subject, wrong.verdict, str(wrong), wrong.fix)
    except (CommandError, ProcessError, RouterError, ToolError, PowerError, ConsoleError) as failed:
        return Finding(subject, "missing", str(failed), fix)
    except (ValueError, LookupError) as strange:
        return Finding(subject, "missing", f"an answer that cannot be parsed: {strange!r}", fix)


def _reached(file: LabFile, name: str, place: Place) -> str:
    entry = file.machines[name]
    ssh, netns = getattr(entry, "ssh", None), getattr(entry, "netns", None)
    try:
        kernel = place.run(["uname", "-sr"], timeout=15).strip()
    except CommandError as failed:
        said = failed.stderr.strip().splitlines()[-1:] or [str(failed)]
        if netns:
            raise Wrong(
                said[0], f"as root: ip netns add {netns}, and configure its interface, address and route"
            ) from None
        fixes = (fix.format(ssh=ssh) for text, fix in _SSH_FIXES.items() if text in failed.stderr)
        raise Wrong(said[0], next(fixes, "check its power, its sshd and its cable")) from None
    return f"{kernel}, " + (f"by ssh {ssh}" if ssh else "this machine")


def _privileges(place: Place, verdict: Verdict) -> str:
    status = place.run(["sh", "-c", "id -u; sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status"]).split()
    if not int(status[1], 16) >> _CAP_NET_ADMIN & 1:
        raise Wrong(
            f"user {status[0]} without CAP_NET_ADMIN", "log in as root over ssh; for this machine: run as root", verdict
        )
    return "root" if status[0] == "0" else f"user {status[0]} with CAP_NET_ADMIN"


def _clock(place: Place) -> str:
    offset = clock_offset(place)
    ahead = f"{offset.seconds:+.4f} s, ± {offset.error:.4f} s"
    if abs(offset.seconds) - offset.error > _CLOCK_S:
        raise Wrong(ahead, "runs correct for it; synchronise its clock with chrony", "note")
    return ahead


def _router(file: LabFile, entry: RouterEntry, router: Router, wanted: Sequence[str]) -> Iterator[Finding]:
    place = router.place
    for side, names in (("lan", NEAR), ("wan", FAR)):
        subject = f"router: {side} {getattr(entry, side)}"
        yield _tried(subject, _side, file, entry, place, side, names)
    yield _tried("router: ssh", _management, entry, place)
    yield _tried("router: forwarding", _forwarding, place, file.ip_version)
    yield _tried("router: offloads", _offloads, place, entry.lan, entry.wan)
    yield _tried("router: tc", place.run, ["tc", "-V"], fix="as root there: apt-get install iproute2")
    yield from _queues(place, wanted)
    yield _tried(
        "router: dead man's timer", place.run, ["sh", "-c", "command -v setsid"],
        fix="as root there: apt-get install util-linux (setsid)",
    )  # fmt: skip
    yield _tried("router: free", _free, router)
    if entry.nat:
        yield _tried(
            "router: nat", _nat, file, entry, place, fix="install nftables there; its kernel needs NF_NAT and NFT_MASQ"
        )


def _side(file: LabFile, entry: RouterEntry, place: Place, side: str, names: Sequence[str]) -> str:
    mine = getattr(entry, side)
    addresses = _addresses(place, file.ip_version)
    if mine not in addresses:
        there = ", ".join(sorted(dev for dev, held in addresses.items() if held))
        raise Wrong(f"no interface {mine}", f"[router] {side}: one of {there}")
    for name in names:
        address = file.hosts[name].address
        dev = _route(place, address).get("dev")
        if dev == {"lan": entry.wan, "wan": entry.lan}[side]:
            raise Wrong(f"{name} ({address}) is behind {dev}", "swap lan and wan")
        if dev != mine:
            raise Wrong(f"{name} ({address}) is behind {dev}", f"add a route there: ip route add {address} dev {mine}")
    if not addresses[mine]:
        raise Wrong(f"no IPv{file.ip_version} address", f"as root there: ip address add … dev {mine}")
    return f"{', '.join(addresses[mine])}; {' and '.join(names)} behind it"


def _management(entry: RouterEntry, place: Place) -> str:
    """Check that commands do not share the bottleneck."""
    words = place.run(["sh", "-c", 'echo "$SSH_CONNECTION"']).split()
    here = words[2] if len(words) > 2 else ""
    mine = [it for version in IP_VERSIONS for it in _addresses(place, version).items()]
    dev = next((dev for dev, held in mine if here in held), "")
    if dev in (entry.lan, entry.wan):
        raise Wrong(f"arrives at {dev}", "use a management port: commands would wait in the queue under test", "note")
    return f"arrives at {dev or 'no measured path'}"


def _forwarding(place: Place, version: IpVersion) -> str:
    name = _FORWARDING[version]
    if place.run(["cat", f"/proc/sys/{name.replace('.', '/')}"]).strip() != "1":
        raise Wrong("off", f"as root there: sysctl -w {name}=1; permanently: a file in /etc/sysctl.d/")
    return "on"


def _offloads(place: Place, *devices: str) -> str:
    there = _addresses(place, 4)
    if missing := [device for device in devices if device not in there]:
        raise Wrong(f"no interface {', '.join(missing)}", f"available: {', '.join(sorted(there))}")
    still_on = offloads_on(place, *devices)
    if still_on is None:
        raise Wrong("unknown", "as root there: apt-get install ethtool", "note")
    if still_on:
        commands = [f"ethtool -K {what.replace(': ', ' ')} off" for what in still_on]
        raise Wrong(f"on: {', '.join(still_on)}", f"as root there: {' && '.join(commands)}")
    return "off"


def _queues(place: Place, wanted: Sequence[str]) -> Iterator[Finding]:
    tries = _NEEDED | {
        kind: f"tc qdisc add dev {_TRY} root {' '.join(parse_qdisc(_SMALLEST.get(kind, kind)).tc_args())}"
        for kind in KINDS
    }
    undo = f"tc qdisc del dev {_TRY} root; tc qdisc del dev {_TRY} ingress"
    script = f"ip link add {_TRY} type ifb || exit 0; echo ifb\n"
    script += "".join(f"{command} && echo {kind}; {undo}\n" for kind, command in tries.items())
    accepted = place.run(["sh", "-c", script + f"ip link del {_TRY}"], check=False).split()
    if missing := [kind for kind in ("ifb", *_NEEDED) if kind not in accepted]:
        yield Finding("router: needs", "missing", f"no {', '.join(missing)}", _fix(missing))
        if "ifb" in missing:
            return
    else:
        yield Finding("router: needs", "ok", f"ifb, {', '.join(_NEEDED)}")
    kinds = [kind for kind in KINDS if kind in accepted]
    missing = [kind for kind in KINDS if kind not in accepted]
    must = [kind for kind in missing if kind in wanted]
    text = ", ".join(kinds) + (f"; no {', '.join(missing)}" if missing else "")
    verdict: Verdict = "missing" if must else "note" if missing else "ok"
    yield Finding("router: queues", verdict, text, _fix(must or missing) if missing else "")


def _fix(kinds: Sequence[str]) -> str:
    words = [kind for kind in kinds if kind in (*tc_objects.KINDS, "dualpi2")]
    return modules_of(kinds) + (f"; for tc: {words_of(words)}" if words else "")


def _free(router: Router) -> str:
    if owner := owner_of(router.place):
        raise Wrong(f"in use by {owner}", "wait for that run; the next run undoes what a dead run left", "note")
    if foreign := router.foreign():
        queues, commands = zip(*foreign, strict=True)
        raise Wrong(f"queues set up by others: {', '.join(queues)}", f"as root there: {' && '.join(commands)}")
    return "nobody's queues"


def _nat(file: LabFile, entry: RouterEntry, place: Place) -> str:
    near, far = ([file.hosts[name].address for name in names] for names in (NEAR, FAR))
    place.run(["nft", "-c", "-f", "-"], input=nat.table(entry.lan, entry.wan, near, far))
    default = _route(place, "192.0.2.1").get("dev")
    if default != entry.wan:
        raise Wrong(f"the default route is {default}", f"set it to {entry.wan}: internet traffic must be shaped")
    return f"masquerades {' and '.join(NEAR)} by {entry.wan}"


def _host(file: LabFile, name: str, place: Place, gateways: Sequence[str] | None) -> Iterator[Finding]:
    """`gateways`: the required next hops to the other side; None if the router did not report them."""
    entry = file.hosts[name]
    yield _tried(f"{name}: address", lambda: _address(entry.address, entry.interface, place))
    for other in FAR if name in NEAR else NEAR:
        to = file.hosts[other].address
        if gateways is not None:
            yield _tried(f"{name}: route to {other}", _way, place, to, gateways)


def _address(address: str, interface: str | None, place: Place) -> str:
    addresses = _addresses(place, ip_version(address))
    if interface and interface not in addresses:
        raise Wrong(f"no interface {interface}", f"set interface to one of {', '.join(sorted(addresses))}")
    dev = next((dev for dev, held in addresses.items() if address in held), None)
    if dev is None:
        there = ", ".join(one for held in addresses.values() for one in held)
        raise Wrong(
            f"no interface has {address}",
            f"available: {there}; give one of them, or run ip address add {address}/… dev {interface or '…'}",
        )
    if interface and interface != dev:
        raise Wrong(f"{address} is on {dev}, not on {interface}", f'interface = "{dev}"')
    return f"{address} on {dev}"


def _way(place: Place, to: str, gateways: Sequence[str]) -> str:
    route = _route(place, to)
    via = route.get("gateway")
    if via not in gateways:
        through = f"ip route replace {to} via {gateways[0]}" if gateways else "add an address to the router's interface"
        raise Wrong(f"goes {f'via {via}' if via else 'directly'}, dev {route.get('dev')}", f"as root there: {through}")
    place.run(["ping", "-c", "1", "-W", "2", to])
    return f"via {via}; the host responds"


def _programs(lab: str) -> str:
    """Check the programs of this host: browser, recorder and stand-in's server."""
    wanted = needed(lab)
    if absent := missing(wanted):
        raise Wrong(f"missing: {', '.join(tool.name for tool in absent)}", install_command(absent))
    return ", ".join(tool.name for tool in wanted)


def _tools(file: LabFile, up: Mapping[str, Place]) -> Iterator[Finding]:
    install = "as root there: apt-get install --no-install-recommends {}"
    for name, place in up.items():
        if name in ("sender", "receiver"):
            yield _tried(f"{name}: iperf3", iperf3.check, place, fix=install.format("iperf3"))
            yield _tried(f"{name}: ss", ss.check, place, fix=install.format("iproute2"))
            yield _tried(f"{name}: TCP", _tcp, place)
        if name in ("client", "server"):
            yield _tried(f"{name}: irtt", irtt.check, place, fix=install.format("irtt"))
            interface = file.hosts[name].interface
            at = tap(name, file, up).place if interface or "router" in up else place
            yield _tried(f"{name}: capture at {at.name}", _capture, at, fix=install.format("tcpdump"))
            if interface:
                yield _tried(f"{name}: offloads of {interface}", _offloads, place, interface)


def _capture(place: Place) -> str:
    # tcpdump prints its version on stderr or stdout.
    programs = ("dumpcap", "tcpdump") if place.remote else ("dumpcap",)
    for program in programs:
        if said := place.run(["sh", "-c", f"command -v {program} >&2 && {program} --version 2>&1"], check=False):
            return said.splitlines()[0]
    raise Wrong(f"no {' and no '.join(programs)}", "as root there: apt-get install --no-install-recommends tcpdump")


def _path_between_taps(file: LabFile, places: Mapping[str, Place]) -> str:
    """Check that the packets of probes and a bulk flow pass both captures with their original addresses."""
    folder, address = scratch_folder("-check"), {name: file.hosts[name].address for name in HOSTS}
    probed = " or ".join(f"udp port {probe.port}" for probe in PROBES)
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        captures = {}
        for side in SIDES:
            at, only = tap(side, file, places), f"{probed} or tcp port {ports.BULK}"
            captures[side] = PacketCapture.start(at.place, at.interface, folder / f"{side}.pcapng", only=only)
            stack.callback(captures[side].process.stop)
        echo = irtt.start_server(places["server"], address["server"], folder / "echo.log")
        stack.callback(echo.stop)
        clients = [
            irtt.IrttClient(
                places["client"], address["server"], folder / f"{probe.file}.json.gz", port=probe.port,
                codepoint=probe.codepoint,
            ).start(_PROBE_S)
            for probe in PROBES
        ]  # fmt: skip
        for client in clients:
            client.stop()
        # Nothing listens: the receiver's refusal is a sufficient answer.
        call = ["iperf3", "-c", address["receiver"], "-p", f"{ports.BULK}", "-t", "1"]
        places["sender"].run([*call, "--connect-timeout", f"{_CONNECT_MS}"], check=False)
        seen = {side: _seen(pcapng.read(capture.stop().file).packets) for side, capture in captures.items()}
    for side, those in seen.items():
        for one, other in _TALK:
            if (address[one], address[other]) not in those:
                strangers = sorted({source for source, _ in those} - set(address.values()))
                instead = f", but some from {', '.join(strangers)}" if strangers else ""
                raise Wrong(f"the {side}'s capture has no packet from {one} to {other}{instead}", _PAST_THE_BOX)
    return "probes and bulk flow pass both captures, in both directions"


def _seen(packets: pl.DataFrame) -> set[tuple[str, str]]:
    """Return the pairs of sender and receiver."""
    pairs = packets.select("src", "dst").unique().iter_rows()
    return {(str(ip_address(source)), str(ip_address(target))) for source, target in pairs}


def _tcp(place: Place) -> str:
    """Check contenders and their ECN modes; the mode is restored."""
    controls = place.run(["cat", "/proc/sys/net/ipv4/tcp_available_congestion_control"]).split()
    file = "/proc/sys/net/ipv4/tcp_ecn"
    script = f"was=$(cat {file}); echo {ACCURATE_ECN} >{file} && cat {file}; echo $was >{file}; echo was $was"
    said = place.run(["sh", "-c", script], check=False).split()
    accurate = said[:1] == [str(ACCURATE_ECN)]
    text = f"{', '.join(controls)}; tcp_ecn {said[-1] if said else 'unknown'}, {'' if accurate else 'no '}AccECN"
    if "cubic" not in controls:
        raise Wrong(text, "as root there: modprobe tcp_cubic")
    if "prague" not in controls or not accurate:
        fix = "Prague needs kernel 6.18.14 or newer, and tcp_prague (docs/hardware.md); CUBIC works without them"
        raise Wrong(text, fix, "note")
    return text


def _switches(file: LabFile) -> Iterator[Finding]:
    for name, machine in file.machines.items():
        if machine.power or machine.labgrid:
            yield _tried(f"{name}: power", _power, name, machine)
        if machine.serial or machine.labgrid:
            yield _tried(f"{name}: serial", _serial, name, file)


def _power(name: str, machine: MachineEntry) -> str:
    return switch(name, machine, "get") or "answers"


def _serial(name: str, file: LabFile) -> str:
    console = open_console(file.machines[name])
    assert console
    try:
        said = answer(console)
    finally:
        console.close()
    if not said:
        raise Wrong("opens, but prints nothing after a return", "check speed, cable, and a getty on its console")
    return repr(said.decode(errors="replace").strip()[-40:])


def _addresses(place: Place, version: IpVersion) -> dict[str, list[str]]:
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


def _route(place: Place, to: str) -> dict[str, Any]:
    return next(iter(_json(place, ["ip", "-j", "route", "get", to])), {})


def _json(place: Place, command: Sequence[str]) -> list[dict[str, Any]]:
    try:
        return list(json.loads(place.run(command) or "[]"))
    except ValueError as wrong:
        raise Wrong(f"{' '.join(command)} printed no JSON", "as root there: apt-get install iproute2") from wrong
