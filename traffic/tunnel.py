# SPDX-License-Identifier: Apache-2.0
"""A tunnel from a sender to a receiver, around the bottleneck between them, which sees only the outer headers.

The first two copy the inner packet's ECN field to the outer header, and a CE mark back to the inner one (RFC 6040):

- WireGuard: all flows are one UDP flow, encrypted; the outer header has no DSCP. A CE mark on what was not ECN-capable
  inside is ignored.
- IP in FOU (IPIP in UDP): all flows are one UDP flow with `fou`; with `fou-auto` the outer source port is a hash of
  the inner flow. A packet that is marked CE but was not ECN-capable inside is dropped.
- OpenVPN: one UDP flow that is not ECN-capable, whatever is inside; a queue can only drop.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from sojourn.hardware.machine.place import CommandError, Place

Kind = Literal["wireguard", "fou", "fou-auto"]
"""Of tunnels that the kernel makes."""
ProgramKind = Literal["openvpn", "openvpn-plain"]
"""Of those that a program carries, encrypted or not."""
DEVICE = "sojourn"
PORT = 5555
"""UDP: of both tunnel ends."""
NEAR, FAR, PREFIX = "10.44.0.1", "10.44.0.2", 30
_IP, _UDP, _ICMP = 20, 8, 8
MTU: dict[Kind | ProgramKind, int] = {
    "wireguard": 1420, "fou": 1500 - _IP - _UDP, "fou-auto": 1500 - _IP - _UDP, "openvpn": 1400, "openvpn-plain": 1400,
}  # fmt: skip
"""Bytes of the largest inner packet whose outer one is not fragmented on Ethernet; WireGuard's own default."""


class TunnelError(RuntimeError):
    """A tunnel cannot be made or carries nothing; the message names the end and the reason."""


@dataclass(frozen=True)
class TunnelEnd:
    """One end: its addresses outside and inside, and (WireGuard) its public key and the file of its private one."""

    outer: str
    inner: str
    key: str = ""
    key_file: str = f"/run/{DEVICE}.key"
    beyond: str = ""
    """Net behind it that the tunnel carries besides the end itself; empty: none."""


@contextmanager
def tunnel(kind: Kind, sender: Place, sender_address: str, receiver: Place, receiver_address: str) -> Iterator[None]:
    """Make a tunnel whose inner addresses are NEAR (sender) and FAR (receiver); take it away when left.

    Raises TunnelError when an end refuses a command, or no packet of the full MTU gets through whole.
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
        size = str(MTU[kind] - _IP - _ICMP)
        sender.run(["ping", "-n", "-c", "2", "-i", "0.2", "-W", "5", "-M", "do", "-s", size, FAR])
        yield
    except CommandError as failed:
        raise TunnelError(f"{kind} tunnel: {failed}") from failed
    finally:
        for place in places:
            _take_away(place)


def commands(kind: Kind, mine: TunnelEnd, other: TunnelEnd) -> list[list[str]]:
    """Return the commands that make the end `mine` of a tunnel."""
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
    """Return the command that is the end `mine` of an OpenVPN tunnel until it ends, and says `UP` when it is ready.

    The key in `key_file` is static and both ends': how it is agreed on is not what a queue sees.
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


def _make_key(place: Place, file: str) -> str:
    """Make a private key in `file` at `place` and return the public one."""
    return place.run(["sh", "-c", f"umask 077; wg genkey >{file} && wg pubkey <{file}"]).strip()


def _take_away(place: Place) -> None:
    place.run(["sh", "-c", f"ip link del {DEVICE}; ip fou del port {PORT}; rm -f {TunnelEnd.key_file}"], check=False)
