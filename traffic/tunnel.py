# SPDX-License-Identifier: Apache-2.0
"""A tunnel from a sender to a receiver, around the bottleneck between them, which sees only the outer headers.

WireGuard and FOU copy the inner packet's ECN field to the outer header, and a CE mark back to the inner one (RFC 6040):

- WireGuard: all flows are one UDP flow, encrypted; the outer header has no DSCP. A CE mark on an inner packet that was
  not ECN-capable is ignored.
- IP in FOU (IPIP in UDP): with `fou`, all flows are one UDP flow; with `fou-auto`, the outer source port is a hash of
  the inner flow. A packet that is marked CE but whose inner packet is not ECN-capable is dropped.
- OpenVPN: one UDP flow that is never ECN-capable; a queue can only drop.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from sojourn.hardware.machine.ip import UDP_HEADERS
from sojourn.hardware.machine.place import CommandError, Place

Kind = Literal["wireguard", "fou", "fou-auto"]
"""Tunnels of the kernel."""
ProgramKind = Literal["openvpn", "openvpn-plain"]
"""Tunnels of a program, encrypted or not."""
DEVICE = "sojourn"
PORT = 5555
"""UDP port of both tunnel ends."""
NEAR, FAR, PREFIX = "10.44.0.1", "10.44.0.2", 30
_PING_HEADERS = 20 + 8
_FOU_MTU = 1500 - UDP_HEADERS[4]
MTU: dict[Kind | ProgramKind, int] = {
    "wireguard": 1420, "fou": _FOU_MTU, "fou-auto": _FOU_MTU, "openvpn": 1400, "openvpn-plain": 1400,
}  # fmt: skip
"""The largest inner packet (bytes) whose outer packet is not fragmented on Ethernet; WireGuard's is its default."""


class TunnelError(RuntimeError):
    """A tunnel cannot be set up or carries no packets; the message names the end and the reason."""


@dataclass(frozen=True)
class TunnelEnd:
    """One end: its outer and inner address, and for WireGuard its public key and the file of its private key."""

    outer: str
    inner: str
    key: str = ""
    key_file: str = f"/run/{DEVICE}.key"
    beyond: str = ""
    """A network behind it that the tunnel also carries; empty: none."""


@contextmanager
def tunnel(kind: Kind, sender: Place, sender_address: str, receiver: Place, receiver_address: str) -> Iterator[None]:
    """Set up a tunnel with the inner addresses NEAR (sender) and FAR (receiver); remove it on exit.

    Raises TunnelError if an end refuses a command, or no packet of the full MTU gets through intact.
    """
    places = sender, receiver
    near, far = TunnelEnd(sender_address, NEAR), TunnelEnd(receiver_address, FAR)
    try:
        for place in places:
            _take_away(place)
        if kind == "wireguard":
            near, far = (
                replace(end, key=_make_key(place, end.key_file)) for place, end in zip(places, (near, far), strict=True)
            )
        for place, mine, other in ((sender, near, far), (receiver, far, near)):
            for command in commands(kind, mine, other):
                place.run(command)
        # The first packet waits for WireGuard's handshake.
        size = str(MTU[kind] - _PING_HEADERS)
        sender.run(["ping", "-n", "-c", "2", "-i", "0.2", "-W", "5", "-M", "do", "-s", size, FAR])
        yield
    except CommandError as failed:
        raise TunnelError(f"{kind} tunnel: {failed}") from failed
    finally:
        for place in places:
            _take_away(place)


def commands(kind: Kind, mine: TunnelEnd, other: TunnelEnd) -> list[list[str]]:
    """Return the commands that set up the end `mine` of a tunnel."""
    if kind == "wireguard":
        made = [
            f"ip link add {DEVICE} type wireguard",
            f"wg set {DEVICE} listen-port {PORT} private-key {mine.key_file} peer {other.key} "
            f"allowed-ips {','.join(filter(None, (f'{other.inner}/32', other.beyond)))} endpoint {other.outer}:{PORT}",
        ]
    else:
        source = "auto" if kind == "fou-auto" else str(PORT)
        made = [
            f"ip fou add port {PORT} ipproto 4",
            f"ip link add {DEVICE} type ipip local {mine.outer} remote {other.outer} ttl 64 "
            f"encap fou encap-sport {source} encap-dport {PORT}",
        ]
    made += [
        f"ip address add {mine.inner}/{PREFIX} dev {DEVICE}",
        f"ip link set {DEVICE} mtu {MTU[kind]} up",
    ]
    if other.beyond:
        made.append(f"ip route replace {other.beyond} dev {DEVICE}")
    return [line.split() for line in made]


def openvpn(kind: ProgramKind, mine: TunnelEnd, other: TunnelEnd) -> list[str]:
    """Return the command that runs the end `mine` of an OpenVPN tunnel; it prints `UP` when it is ready.

    Both ends share the static key in `key_file`: a queue does not see how keys are negotiated.
    """
    words = (
        f"openvpn --dev {DEVICE} --dev-type tun --proto udp4 --local {mine.outer} --remote {other.outer} "
        f"--lport {PORT} --rport {PORT} --ifconfig {mine.inner} {other.inner} --tun-mtu {MTU[kind]} --mssfix 0 "
        "--allow-deprecated-insecure-static-crypto "
    )
    if kind == "openvpn":
        words += f"--secret {mine.key_file} --cipher AES-256-CBC --auth SHA256"
    else:
        words += "--cipher none --auth none"
    return words.split()


UP = "Initialization Sequence Completed"
TAKE_AWAY = f"ip link del {DEVICE} && ip fou del port {PORT}; rm -f {TunnelEnd.key_file}"
"""The shell line that removes a tunnel's end. A port without the device may be another's."""


def _make_key(place: Place, file: str) -> str:
    """Create a private key in `file` at `place` and return the public key."""
    return place.run(["sh", "-c", f"umask 077; wg genkey >{file} && wg pubkey <{file}"]).strip()


def _take_away(place: Place) -> None:
    place.run(["sh", "-c", f"{TAKE_AWAY}; ip fou del port {PORT}"], check=False)
