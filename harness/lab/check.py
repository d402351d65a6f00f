# SPDX-License-Identifier: Apache-2.0
"""Check every entry of a physical lab's file on the machines, with the fix for each problem (`sojourn lab check`).

Nothing stays changed: ECN modes are restored, and machines in use are left alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import polars as pl

from sojourn.captures.packets import PacketCapture
from sojourn.hardware.lab.console import ConsoleError, answer, open_console
from sojourn.hardware.lab.lab_file import FAR, HOSTS, NEAR, LabFile, LabFileError, MachineEntry
from sojourn.hardware.lab.power import PowerError, switch
from sojourn.hardware.machine.clock import clock_offset
from sojourn.hardware.machine.ip import ip_version
from sojourn.hardware.machine.place import CommandError, Place
from sojourn.hardware.machine.programs import install_command
from sojourn.hardware.machine.scratch import scratch_folder
from sojourn.harness.lab.check_router import check_router
from sojourn.harness.lab.contract import SIDES, Tap
from sojourn.harness.lab.doctor import Finding, Verdict
from sojourn.harness.lab.instruments import first_failure
from sojourn.harness.lab.machine_checks import (
    INTERNET,
    Wrong,
    addresses_of,
    finding_of,
    matched_route,
    measured,
    require_ethernet,
    require_free,
    require_management,
    require_no_offloads,
    route_to,
)
from sojourn.harness.lab.needs import missing, needed
from sojourn.harness.lab.physical import close_master, places_of, router_of, tap
from sojourn.scoring.packets import pcapng
from sojourn.traffic import iperf3, irtt, ports, ss
from sojourn.traffic.contender import ACCURATE_ECN
from sojourn.traffic.probes import PROBES

_CLOCK_S = 0.05
#: Bytes that a flow may have in flight: 1 Gbit/s over 250 ms.
_TCP_MEMORY = 32 << 20
_CAP_NET_ADMIN = 12
_PROBE_S, _CONNECT_MS = 2, 3000
#: Sender and receiver of every flow in a run.
_TALK = ("client", "server"), ("server", "client"), ("sender", "receiver"), ("receiver", "sender")
_NO_INTERNET = "give the client a default route through the router (docs/physical-lab.md), such as in a namespace"
_PAST_THE_BOX = (
    "the path must lead through the box, routed or bridged without NAT, and its firewall must not block it; if "
    "receiver and client, or sender and server, are different machines, the captures do not see the bulk flow"
)
_SSH_FIXES = {
    "Permission denied": "run `ssh-copy-id {ssh}`, or name the key in ~/.ssh/config: a run cannot type a password",
    "Host key verification failed": "run `ssh {ssh}` once by hand and verify its key",
    "too long": "set TMPDIR to a short path, such as /tmp: a control socket of ssh may have 107 bytes",
    "Could not resolve": "set a HostName for {ssh} in ~/.ssh/config, or add a line to /etc/hosts",
}


def examine(file: LabFile, wanted: Sequence[str] = ()) -> Iterator[Finding]:
    """Check every entry of a lab file; `wanted` are queues that the router must support."""
    with ExitStack() as stack:
        places, up = places_of(file), {}
        for name, place in places.items():
            stack.callback(close_master, place)
            finding = finding_of(f"{name}: reached", _reached, file, name, place)
            yield finding
            if finding.verdict == "ok":
                up[name] = place
        for name, place in up.items():
            yield finding_of(f"{name}: privileges", _privileges, place, "note" if name == "client" else "missing")
            yield finding_of(f"{name}: clock", _clock, place)
            if place.remote:
                yield finding_of(f"{name}: ssh", require_management, place, measured(file, name))
                yield finding_of(
                    f"{name}: dead man's timer", place.run, ["sh", "-c", "command -v setsid"],
                    fix="as root there: apt-get install util-linux (setsid)",
                )  # fmt: skip
        gateways: dict[str, Sequence[str]] = {}
        if file.router and "router" in up:
            yield from check_router(file, file.router, router_of(file.router, file, places), wanted)
            with suppress(CommandError, Wrong):  # reported above
                addresses, entry = addresses_of(up["router"], file.ip_version), file.router
                gateways = {name: addresses.get(entry.lan if name in NEAR else entry.wan, ()) for name in HOSTS}
        for name in (name for name in HOSTS if name in up):
            yield from _host(file, name, up, gateways.get(name))
        if file.router and file.router.nat and "client" in up:
            yield finding_of("client: internet", _internet, up["client"], gateways.get("client", ()), fix=_NO_INTERNET)
        yield finding_of("client: programs", _programs, file.lab)
        yield finding_of("server: stand-ins", _stand_ins, file)
        if "server" in up and not file.stand_in_problem:
            yield finding_of("server: route of the origin", _origin_route, up["server"], file.client.address)
        yield from _tools(file, up)
        if file.box and up.keys() == places.keys():
            yield finding_of(f"{file.box.name}: between the captures", _path_between_taps, file, up, fix=_PAST_THE_BOX)
        yield from _switches(file, up)


def require_reached(file: LabFile) -> None:
    """Check that every machine of a lab is reachable, before a run begins.

    Raises `sojourn.hardware.lab.lab_file.LabFileError`, with the fix, for the first that is not.
    """
    with ExitStack() as stack:
        for name, place in places_of(file).items():
            stack.callback(close_master, place)
            finding = finding_of(f"{name}: reached", _reached, file, name, place)
            if finding.verdict != "ok":
                raise LabFileError(
                    f"--lab-file: {name} is not reachable: {finding.found}; {finding.fix} "
                    "(`sojourn lab check` checks the rest)",
                    code="unreachable",
                )


def require_uplink(file: LabFile, url: str) -> None:
    """Check that the client reaches the internet through the router, before a run with a live service or page begins.

    A page on the lab's own server needs no internet. Raises LabFileError, with the fix.
    """
    if not file.router or urlsplit(url).hostname in {file.hosts[name].address for name in FAR}:
        return
    if not file.router.nat:
        raise LabFileError(
            "--lab-file: the client has no path to the internet through the router: set nat = true in [router] "
            "(docs/physical-lab.md), or use --lab=virtual",
            code="unsupported",
        )
    with ExitStack() as stack:
        for place in (places := places_of(file)).values():
            stack.callback(close_master, place)
        gateways = addresses_of(places["router"], file.ip_version).get(file.router.lan, ())
        finding = finding_of("client: internet", _internet, places["client"], gateways, fix=_NO_INTERNET)
        if finding.verdict != "ok":
            raise LabFileError(f"--lab-file: {finding.subject}: {finding.found}; {finding.fix}", code="unsupported")


def _reached(file: LabFile, name: str, place: Place) -> str:
    entry = file.machines[name]
    ssh, netns = getattr(entry, "ssh", None), getattr(entry, "netns", None)
    try:
        kernel = place.run(["uname", "-sr"], timeout=15).strip()
    except CommandError as failed:
        said = failed.stderr.strip().splitlines()[-1:] or [str(failed)]
        if netns and os.geteuid() and Path(f"/run/netns/{netns}").exists():
            raise Wrong(said[0], "start sojourn as root: only root may enter a network namespace") from None
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


def _host(file: LabFile, name: str, up: Mapping[str, Place], gateways: Sequence[str] | None) -> Iterator[Finding]:
    """`gateways`: the required next hops to the other side; None if the router did not report them."""
    entry, place = file.hosts[name], up[name]
    yield finding_of(f"{name}: address", lambda: _address(entry.address, entry.interface, place))
    for other in FAR if name in NEAR else NEAR:
        to = file.hosts[other].address
        if gateways is not None:
            yield finding_of(f"{name}: route to {other}", _way, place, to, gateways, up["router"])


def _address(address: str, interface: str | None, place: Place) -> str:
    addresses = addresses_of(place, ip_version(address))
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


def _way(place: Place, to: str, gateways: Sequence[str], router: Place) -> str:
    route = route_to(place, to)
    via = route.get("gateway")
    if via not in gateways:
        through = f"ip route replace {to} via {gateways[0]}" if gateways else "add an address to the router's interface"
        raise Wrong(f"goes {f'via {via}' if via else 'directly'}, dev {route.get('dev')}", f"as root there: {through}")
    require_free(router)
    place.run(["ping", "-c", "1", "-W", "2", to])
    return f"via {via}; the host responds"


def _internet(place: Place, gateways: Sequence[str]) -> str:
    """Check that the client reaches the internet through the router alone: another way is not shaped."""
    route = route_to(place, INTERNET)
    if (via := route.get("gateway")) not in gateways:
        raise Wrong(f"goes {f'via {via}' if via else 'directly'}, dev {route.get('dev')}", _NO_INTERNET)
    if place.run(["ip", "-6", "route", "show", "default"]).strip():
        raise Wrong("an IPv6 default route bypasses the router", "as root there: ip -6 route del default")
    return f"via {via}"


def _programs(lab: str) -> str:
    """Check the programs of this host: browser, recorder and stand-in's server."""
    wanted = needed(lab)
    if absent := missing(wanted):
        raise Wrong(f"missing: {', '.join(tool.name for tool in absent)}", install_command(absent))
    return ", ".join(tool.name for tool in wanted)


def _stand_ins(file: LabFile) -> str:
    if why := file.stand_in_problem:
        found, _, fix = why.partition("; ")
        raise Wrong(found, fix, "note")
    return "run on this machine"


def _origin_route(place: Place, client: str) -> str:
    """Check that the client is reached by the default route, on which the origin sets its congestion control."""
    route = matched_route(place, client)
    way = " ".join(f"{word} {route[key]}" for key, word in (("gateway", "via"), ("dev", "dev")) if key in route)
    if (dst := route.get("dst")) != "default":
        raise Wrong(
            f"{client} is reached by {dst} {way}",
            "the origin sets its congestion control on the default route; as root, in a namespace ([server] netns): "
            f"ip route replace default {way} && ip route del {dst}",
        )
    return f"default {way}"


def _tools(file: LabFile, up: Mapping[str, Place]) -> Iterator[Finding]:
    install = "as root there: apt-get install --no-install-recommends {}"
    for name, place in up.items():
        if name in ("sender", "receiver"):
            yield finding_of(f"{name}: iperf3", iperf3.check, place, fix=install.format("iperf3"))
            yield finding_of(f"{name}: ss", ss.check, place, fix=install.format("iproute2"))
            yield finding_of(f"{name}: TCP", _tcp, place)
            yield finding_of(f"{name}: TCP memory", _tcp_memory, place, "rmem" if name == "receiver" else "wmem")
        if name in ("client", "server"):
            yield finding_of(f"{name}: irtt", irtt.check, place, fix=install.format("irtt"))
            if name == "server":
                yield finding_of("server: ports of the probes", _ports_free, place)
                if place.remote:
                    yield finding_of("server: Python", _python, place)
            interface = file.hosts[name].interface
            if interface or "router" in up:
                at = tap(name, file, up)
                yield finding_of(f"{name}: capture at {at.place.name}", _capture, at, fix=install.format("tcpdump"))
            if interface:
                yield finding_of(f"{name}: offloads of {interface}", require_no_offloads, place, interface)


def _python(place: Place) -> str:
    """Check the Python that runs the server's ends of games, web users and calls' traffic."""
    if said := _version(place, "python3"):
        return said
    need = "only --service=game and the contenders game, web and call need it"
    raise Wrong("no python3", f"{need}; as root there: apt-get install --no-install-recommends python3", "note")


def _version(place: Place, program: str) -> str:
    """Return what a program prints as its version, on either stream; empty if the machine does not have it."""
    return place.run(["sh", "-c", f"command -v {program} >&2 && {program} --version 2>&1"], check=False)


def _ports_free(place: Place) -> str:
    """Check that no other program has the ports of the probes' server: Debian's package starts one at once."""
    require_free(place)
    wanted = [ports.IRTT, ports.IRTT_ECT1, ports.IRTT_UNSHAPED]
    taken = place.run(["ss", "-Hulnp", " or ".join(f"sport = :{port}" for port in wanted)]).split("\n")
    if taken[0]:
        fix = "as root there: systemctl disable --now irtt" if '"irtt"' in taken[0] else "end that program"
        raise Wrong(f"in use: {' '.join(taken[0].split())}", fix)
    return f"{', '.join(map(str, wanted))} are free"


def _tcp_memory(place: Place, kind: str) -> str:
    """Check that buffers and cached metrics do not limit a flow, as in the virtual lab and in the router's image."""
    memory, metrics = f"net.ipv4.tcp_{kind}", "net.ipv4.tcp_no_metrics_save"
    *_, most = place.run(["cat", _proc(memory)]).split()
    saves = place.run(["cat", _proc(metrics)]).strip() != "1"
    text = f"{memory} up to {int(most) >> 20} MiB; flows {'learn' if saves else 'do not learn'} from earlier ones"
    if int(most) < _TCP_MEMORY or saves:
        small = "4096 131072" if kind == "rmem" else "4096 65536"
        fix = f"as root there: sysctl -w {memory}='{small} {_TCP_MEMORY}' {metrics}=1; buffers limit a flow otherwise"
        raise Wrong(text, fix, "note")
    return text


def _proc(name: str) -> str:
    return f"/proc/sys/{name.replace('.', '/')}"


def _capture(at: Tap) -> str:
    require_ethernet(at.place, at.interface)
    for program in ("dumpcap", "tcpdump"):
        if said := _version(at.place, program):
            return said.splitlines()[0]
    raise Wrong("no dumpcap and no tcpdump", "as root there: apt-get install --no-install-recommends tcpdump")


def _path_between_taps(file: LabFile, places: Mapping[str, Place]) -> str:
    """Check that the packets of probes and a bulk flow pass both captures with their original addresses."""
    for place in places.values():
        require_free(place)
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
        with first_failure() as probing:
            for probe in PROBES:
                output = folder / f"{probe.file}.json.gz"
                client = irtt.IrttClient(
                    places["client"], address["server"], output, port=probe.port, codepoint=probe.codepoint
                )
                probing.callback(client.start(_PROBE_S).stop)
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
    require_free(place)
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


def _switches(file: LabFile, up: Mapping[str, Place]) -> Iterator[Finding]:
    for name, machine in file.machines.items():
        if machine.power or machine.labgrid:
            yield finding_of(f"{name}: power", _power, name, machine)
        if machine.serial or machine.labgrid:
            # A box, or a machine that does not respond, is in use with any other of its lab.
            places = [up[name]] if name in up else [*up.values()]
            yield finding_of(f"{name}: serial", _serial, machine, places)


def _power(name: str, machine: MachineEntry) -> str:
    try:
        return switch(name, machine, "get") or "answers"
    except PowerError as failed:
        if machine.power:
            raise
        raise Wrong(str(failed), "optional: give the labgrid target a power driver", "note") from failed


def _serial(machine: MachineEntry, places: Sequence[Place]) -> str:
    for place in places:
        require_free(place)  # a run records the console
    try:
        console = open_console(machine)
    except ConsoleError as failed:
        if machine.serial:
            raise
        raise Wrong(str(failed), "optional: give the labgrid target a console driver", "note") from failed
    assert console
    try:
        said = answer(console)
    finally:
        console.close()
    if not said:
        raise Wrong("opens, but prints nothing after a return", "check speed, cable, and a getty on its console")
    return repr(said.decode(errors="replace").strip()[-40:])
