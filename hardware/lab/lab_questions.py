# SPDX-License-Identifier: Apache-2.0
"""Create a lab file interactively: one question per entry, with proposals from the machines themselves."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_interface
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from sojourn.hardware.lab.lab_file import FAR, NEAR, Address, BoxName, InterfaceName, SshName
from sojourn.hardware.machine.ip import IP_VERSIONS, ip_version
from sojourn.hardware.machine.place import LOCAL, NO_WAY_BACK, CommandError, Place

_GREET_S = 10
_Middle = Literal["router", "box"]
_WHERE = {
    "client": "The client: browser, recorder and probe run on this machine.",
    "receiver": "The receiver of the bulk flow, on the client's side; also this machine, with another address.",
    "server": "The server of film and probe, on the other side.",
    "sender": "The sender of the bulk flow, on the server's side; may be the server itself.",
}


@dataclass(frozen=True)
class Port:
    """A machine's interface with an IP address; `away`: it has a default route."""

    name: str
    address: IPv4Interface | IPv6Interface
    away: bool = False


Tables = dict[str, dict[str, Any]]
#: Asks one question, with a proposal ("": none), and returns the answer.
Ask = Callable[[str, str], str]
#: Prints a line.
Show = Callable[[str], None]
#: Returns the ports of an ssh destination, or of this machine (""). Raises CommandError.
Look = Callable[[str], Sequence[Port]]


def ports_of(ssh: str) -> list[Port]:
    """Return the ports of a machine, of this one for "". Raises CommandError."""
    options = (*NO_WAY_BACK, "BatchMode=yes", f"ConnectTimeout={_GREET_S}")
    words = [word for option in options for word in ("-o", option)]
    place = Place(ssh, ("ssh", *words, ssh), remote=True) if ssh else LOCAL

    def read(*what: str) -> list[Any]:
        return list(json.loads(place.run(["ip", "-j", *what], timeout=2 * _GREET_S) or "[]"))

    away = {route.get("dev") for version in IP_VERSIONS for route in read(f"-{version}", "route", "show", "default")}
    return [
        Port(link["ifname"], ip_interface(f"{entry['local']}/{entry['prefixlen']}"), link["ifname"] in away)
        for link in read("address")
        for entry in link.get("addr_info", [])
        if link["ifname"] != "lo" and entry["scope"] != "link"
    ]


def ask_lab(ask: Ask, show: Show, look: Look = ports_of) -> Tables:
    """Ask for router or box, and for hosts; return the tables of a lab file. Invalid answers are asked for again."""
    middle = _answer(ask, show, "between the two sides: router (Linux, by ssh) or box (any device)", "router", _Middle)
    tables, networks = _router(ask, show, look) if middle == "router" else (_box(ask, show), {})
    here = _seen(look, show, "") or []
    for name in (*NEAR, *FAR):
        show(_WHERE[name])
        # All addresses have the IP version of the first.
        of_one = {ip_version(table["address"]) for host, table in tables.items() if "address" in table} or IP_VERSIONS
        first = tables.get("client" if name in NEAR else "server", {})
        ssh, its = "", here
        if name != "client":
            question = f"{name}: ssh destination (-: this machine)"
            ssh, its = _reached(ask, show, look, question, first.get("ssh", "-"), here)
        # The networks of a box are unknown; the default route is rarely one of them.
        side = networks.get("lan" if name in NEAR else "wan", [port.address.network for port in its if not port.away])
        fitting = [port for port in its if port.address.network in side and port.address.version in of_one]
        # A flow leaves a machine by its first address; a separate receiver address distinguishes the bulk flow from the
        # film.
        taken = {table["address"] for host, table in tables.items() if host in NEAR}
        proposal = next((str(port.address.ip) for port in fitting if str(port.address.ip) not in taken), "")
        address = _answer(ask, show, f"{name}: address on that side of the {middle}", proposal, Address, taken)
        tables[name] = ({"ssh": ssh} if ssh else {}) | {"address": address}
        if name in ("client", "server"):
            # The router sees every bulk flow, and by one clock.
            device = "-" if networks else next((port.name for port in its if str(port.address.ip) == address), "")
            where = f"{name}: interface to capture on{' (-: at the router)' if networks else ''}"
            device = _answer(ask, show, where, device, InterfaceName)
            tables[name] |= {"interface": device} if device != "-" else {}
    return tables


def _box(ask: Ask, show: Show) -> Tables:
    show("A box is neither configured nor read: packets are captured on both sides, at client and server.")
    return {"box": {"name": _answer(ask, show, "box: its name in the evidence", "box", BoxName)}}


def _router(ask: Ask, show: Show, look: Look) -> tuple[Tables, dict[str, list[IPv4Network | IPv6Network]]]:
    """The router's table, and the networks on each side of it."""
    ssh, ports = _reached(ask, show, look, "router: ssh destination", "")
    inner = [port.name for port in ports if not port.away]
    lan = _answer(ask, show, "router: interface towards the client", (*inner, "")[0], InterfaceName)
    others = [name for name in (*inner, *(port.name for port in ports)) if name != lan]
    wan = _answer(ask, show, "router: interface towards the server", (*others, "")[0], InterfaceName, {lan})
    networks = {
        side: [port.address.network for port in ports if port.name == name]
        for side, name in (("lan", lan), ("wan", wan))
    }
    return {"router": {"ssh": ssh, "lan": lan, "wan": wan}}, networks


def written(tables: Tables) -> str:
    """Return the tables as TOML, with a note on further entries."""
    lines = ["# Further entries (power, consoles, NAT, namespaces): docs/physical-lab.md"]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _reached(
    ask: Ask, show: Show, look: Look, question: str, proposal: str, here: Sequence[Port] = ()
) -> tuple[str, Sequence[Port]]:
    """Ask for an ssh destination until it responds; return it ("": this machine) and its ports; `here` are this one's.

    The same destination twice is taken as it is, without ports: the machine may be off.
    """
    silent = ""
    while True:
        ssh = _answer(ask, show, question, silent or proposal, SshName)
        if ssh == "-":
            return "", here
        ports = _seen(look, show, ssh)
        if ports is not None or ssh == silent:
            return ssh, ports or []
        show(f"Correct the destination, or make `ssh {ssh}` work. If {ssh} fails again, nothing is proposed from it.")
        silent = ssh


def _seen(look: Look, show: Show, ssh: str) -> Sequence[Port] | None:
    """Print and return a machine's ports, to choose from. None, with a message, if it does not respond."""
    try:
        ports = look(ssh)
    except (CommandError, ValueError) as failed:
        show(f"{ssh or 'this machine'} did not list its interfaces: {failed}")
        return None
    shown = ", ".join(f"{port.name} {port.address}{' (default route)' if port.away else ''}" for port in ports)
    show(f"{ssh or 'this machine'} has {shown or 'no interface with an IP address'}")
    return ports


def _answer(ask: Ask, show: Show, question: str, proposal: str, kind: Any, taken: Collection[str] = ()) -> str:
    """Ask until the answer is valid in a lab file and not `taken`."""
    while True:
        text = ask(question, proposal).strip()
        if text == "-" and "(-:" in question:
            return text
        try:
            value = str(TypeAdapter(kind).validate_python(text))
        except ValidationError as wrong:
            show(wrong.errors()[0]["msg"].removeprefix("Value error, "))
            continue
        if value not in taken:
            return value
        show(f"{value} is already in use; a machine with both roles needs a second address (`ip address add`)")
