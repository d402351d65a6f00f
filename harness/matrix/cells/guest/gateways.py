# SPDX-License-Identifier: Apache-2.0
"""The two ends of a tunnel around the middleboxes: their set-up, and the queries at the end. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from sojourn.bottleneck.cell import Cell
from sojourn.harness.matrix.cells.guest.network import FAR, NEAR, Network, bare
from sojourn.traffic import tunnel
from sojourn.traffic.tunnel import Kind, ProgramKind, TunnelEnd

IPSEC_MTU = 1400
"""Bytes of the largest packet inside ESP."""
REPLAY = {"down": "replay-down", "up": "replay-up"}
"""Files with each direction's replay window state, as the receiving end of ESP reports it at the end."""


def inner_mtu(kind: Literal["ipsec"] | Kind | ProgramKind) -> int:
    """Return the bytes of the largest packet that goes into a tunnel whole."""
    return IPSEC_MTU if kind == "ipsec" else tunnel.MTU[kind]


def _gateways(net: Network) -> tuple[tuple[str, str], tuple[str, str]]:
    """The address of each end of a tunnel, near and far, and the net behind it."""
    near, far = (bare(net.numbers.links.format(*at)) for at in ((0, 1), (len(net.boxes) - 2, 2)))
    return (near, net.numbers.hosts.format(0)), (far, net.numbers.receiver.format(0))


def _openvpn(kind: ProgramKind, near: TunnelEnd, far: TunnelEnd) -> Iterator[str]:
    """Yield the shell lines that start both ends of OpenVPN, wait until they are ready and route through them."""
    near, far = (replace(end, key_file="/run/openvpn.key") for end in (near, far))
    if kind == "openvpn":
        yield f"openvpn --genkey secret {near.key_file}"
    for space, mine, other in ((NEAR, near, far), (FAR, far, near)):
        yield f"ip netns exec {space} {' '.join(tunnel.openvpn(kind, mine, other))} >/run/{space}.log 2>&1 &"
    for space, other in ((NEAR, far), (FAR, near)):
        yield (
            f"n=0; until grep -q '{tunnel.UP}' /run/{space}.log; do "
            f"n=$((n + 1)); [ $n -lt 100 ] || {{ cat /run/{space}.log >&2; exit 1; }}; sleep 0.1; done"
        )
        yield f"ip -n {space} route replace {other.beyond} dev {tunnel.DEVICE}"


def commands(cell: Cell, net: Network) -> Iterator[str]:
    """Yield the shell lines that create a tunnel between the two gateways."""
    if cell.tunnel == "" or cell.tunnel == "ipsec":
        return
    near, far = (
        TunnelEnd(outer, inner, key=f"$(wg pubkey </run/{space}.key)", key_file=f"/run/{space}.key", beyond=beyond)
        for space, inner, (outer, beyond) in zip((NEAR, FAR), (tunnel.NEAR, tunnel.FAR), _gateways(net), strict=True)
    )
    if cell.tunnel == "openvpn" or cell.tunnel == "openvpn-plain":
        yield from _openvpn(cell.tunnel, near, far)
        return
    if cell.tunnel == "wireguard":
        yield from (f"wg genkey >{end.key_file}" for end in (near, far))
    for space, mine, other in ((NEAR, near, far), (FAR, far, near)):
        for command in tunnel.commands(cell.tunnel, mine, other):
            yield f"ip netns exec {space} {' '.join(command)}"


def ipsec(cell: Cell, net: Network, space: str) -> list[str]:
    """ESP in tunnel mode between the two gateways; the ECN field is copied out and in again (RFC 6040)."""
    if cell.tunnel != "ipsec" or space not in (NEAR, FAR):
        return []
    (near, _), (far, _) = sides = _gateways(net)
    (mine, inside), (other, outside) = sides if space == NEAR else reversed(sides)
    states = [
        f"xfrm state add src {src} dst {dst} proto esp spi {spi} reqid 1 mode tunnel "
        f"replay-window {cell.replay_window} aead rfc4106(gcm(aes)) 0x{'5a' * 20} 128"
        for spi, (src, dst) in enumerate([(near, far), (far, near)], start=256)
    ]
    template = "proto esp reqid 1 mode tunnel"
    policies = [f"xfrm policy add src {inside} dst {outside} dir out tmpl src {mine} dst {other} {template}"] + [
        f"xfrm policy add src {outside} dst {inside} dir {way} tmpl src {other} dst {mine} {template}"
        for way in ("in", "fwd")
    ]
    return [*states, *policies]


def replay_queries(cell: Cell, net: Network) -> Iterator[str]:
    """Yield the shell lines that query both ends of ESP for what they dropped."""
    if cell.tunnel == "ipsec":
        (near, _), (far, _) = _gateways(net)
        for way, space, sender in (("down", FAR, near), ("up", NEAR, far)):
            yield f"ip -n {space} -s xfrm state list src {sender} >{REPLAY[way]}"
