# SPDX-License-Identifier: Apache-2.0
"""What may stay of a run's texts and addresses in an anonymised bundle; a pseudonym takes the place of all else.

A text stays only if each of its words is Sojourn's own: a number with a unit, a contender, a queue in tc's words, a
role in the lab. Pseudonyms count up in the order of appearance, so they show nothing of the original, and the same
original always has the same one.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Any

from sojourn.apps.options import PLAYERS
from sojourn.bottleneck.qdiscs import KINDS, QdiscError, parse_qdisc
from sojourn.scoring.schema.scores import PhaseScores
from sojourn.traffic.contender import CONTENDERS, OPTIONAL
from sojourn.traffic.load import KNOWN
from sojourn.traffic.user_program import PREFIX

#: What stays: the networks of Sojourn's own labs, this host, nobody, everybody (RFC 6890), and netmasks.
_KEPT = [
    ipaddress.IPv4Network(text) for text in ("10.42.0.0/16", "127.0.0.0/8", "0.0.0.0/8", "224.0.0.0/4", "255.0.0.0/8")
]
_KEPT6 = [ipaddress.IPv6Network(text) for text in ("fd42:1::/64", "fd42:2::/64", "::/127")]
#: Before an IPv4 address in an IPv6 one (RFC 4291).
_MAPPED = bytes(10) + b"\xff\xff"
_KEPT_MACS = {bytes(6), b"\xff" * 6}
#: Addresses for benchmarks (RFC 2544), for documentation (RFC 3849), and locally administered ones.
_SPARE, _SPARE6, _SPARE_MAC = 0xC6120000, 0x20010DB8 << 96, 0x02 << 40
_SPARES = (1 << 17) - 1

#: With a unit, or tc's name of a queue or class. No address or serial number is as short, or has one dot only.
#: The name of a user's program in a load or a phase.
_PROGRAM = re.compile(rf"\b{PREFIX}[a-z0-9][a-z0-9_.-]*")
_NUMBER = re.compile(r"\d{1,7}(?:\.\d{1,6})?(?:[kmg]?bit|[num]?s|[pkm%]|x\d{1,5})?|[\da-f]{1,4}:[\da-f]{0,4}")
_BETWEEN_WORDS = re.compile(r"[ ,+*@/_-]+")
#: Both ends of a socket, as `ss` and the samplers of sockets write them.
_ENDS = re.compile(r"(?P<source>[\d.]+|\[[\da-fA-F:.]+\]):\d+>(?P<destination>[\d.]+|\[[\da-fA-F:.]+\]):\d+")
_WORDS = frozenset(
    (
        *(
            "client",
            "server",
            "router",
            "sender",
            "receiver",
            "hub",
            "lan",
            "wan",
            "eth0",
            "second",
            "far",
            "down",
            "up",
        ),
        *("sim", "virtual", "apu", "black", "box", "ffmpeg", "obs", "playwright", "selenium", "h2", "h3", "solo"),
        *("up", "video", "call", "web", "harm", "test", "origin", "irtt", "ect1", "unshaped", "bulk", "meeting"),
        *("htb", "netem", "noqueue", "mq", "prio", "ingress", "clsact", "root", "ifb0"),
        *("foreign", "self", "Low", "Medium", "High"),
        # Events and qualities of a player (captures/player.js, captures/call.js, apps/page_service.py).
        *("waiting", "playing", "pause", "ended", "seeking", "seeked", "stalled", "ratechange", "resize", "error"),
        *("spoken", "heard", "speakers", "muted"),  # captures/sound.js, apps/standins/room/room.js
        *("decision", "latency", *(part for name in PLAYERS for part in name.split("-"))),
        *("sabr", "profile", "buffer", "throughput", "hybrid", "sammy"),
        # apps/standins/room/room.js, and the set-up of a room.
        *("tile", "joining", "joined", "published", "reconnecting", "reconnected", "room", "simulcast", "svc"),
        *("qualitychange", "ad", "camera", "unknown", "auto", "tiny", "small", "medium", "large", "highres"),
        *(f"hd{lines}" for lines in (720, 1080, 1440, 2160)),
        *("not", "ect", "ect0", "ce", "true", "false"),
        # Of scores.json.
        *("C", "L", "as", "the", "qdisc", "tells", "webrtc", "stall", "strip", "blind", "player", "none", "Infinity"),
        *("less", "more", "contender", "probe"),
        *(part for name in PhaseScores.model_fields for part in name.split("_")),
        *KNOWN,
        *(part for name in (*CONTENDERS, *OPTIONAL) for part in name.split("-")),
        *(part for kind in KINDS for part in kind.split("_")),
    )
)


class PseudonymError(RuntimeError):
    """There are more addresses than there are replacements."""


class Pseudonyms:
    """Replaces addresses and texts, each by the same wherever it occurs in a run."""

    def __init__(self) -> None:
        self._numbers: dict[str, dict[Any, int]] = {}
        self._packed: dict[bytes, bytes] = {}

    def _number(self, kind: str, original: Any) -> int:
        """Return the position of an original among those of its kind, from 1 on."""
        numbers = self._numbers.setdefault(kind, {})
        return numbers.setdefault(original, len(numbers) + 1)

    def packed(self, address: bytes) -> bytes:
        """Return the replacement of an IPv4 (4 bytes), MAC (6) or IPv6 address (16). Raises PseudonymError.

        An IPv4 address within an IPv6 one is replaced as it is alone, a MAC address of a group by one of a group.
        """
        if address not in self._packed:
            replace = {4: self._ipv4, 6: self._mac, 16: self._ipv6}[len(address)]
            self._packed[address] = replace(address)
        return self._packed[address]

    def _ipv4(self, address: bytes) -> bytes:
        if any(ipaddress.IPv4Address(address) in network for network in _KEPT):
            return address
        number = self._number("ipv4", address)
        if number > _SPARES:
            raise PseudonymError(f"more than {_SPARES} addresses")
        return (_SPARE + number).to_bytes(4, "big")

    def _ipv6(self, address: bytes) -> bytes:
        if any(ipaddress.IPv6Address(address) in network for network in _KEPT6):
            return address
        if address.startswith(_MAPPED):
            return _MAPPED + self.packed(address[12:])
        return (_SPARE6 + self._number("ipv6", address)).to_bytes(16, "big")

    def _mac(self, address: bytes) -> bytes:
        if address in _KEPT_MACS:
            return address
        group = (address[0] & 1) << 40
        return (_SPARE_MAC + group + self._number("mac", address)).to_bytes(6, "big")

    def text(self, text: str) -> str:
        """Return a text that consists of Sojourn's own words, an address's replacement, or `withheld-N`.

        The name that a user gave a program is kept.
        """
        try:
            return self._address(text)
        except ValueError:
            pass
        if ends := _ENDS.fullmatch(text):
            for end in ("destination", "source"):  # from behind, so that the places stay right
                start, stop = ends.span(end)
                inner = ends[end].strip("[]")
                try:
                    text = text[:start] + ends[end].replace(inner, self._address(inner)) + text[stop:]
                except ValueError:
                    return self._withheld(text)
            return text
        words = _BETWEEN_WORDS.split(_PROGRAM.sub("bulk", text))
        if all(word in _WORDS or _NUMBER.fullmatch(word) for word in words if word):
            return text
        try:
            return str(parse_qdisc(text, option=""))
        except QdiscError:
            return self._withheld(text)

    def _address(self, text: str) -> str:
        """Return the replacement of an address. Raises ValueError for a text that is none."""
        masked = self.packed(ipaddress.ip_address(text).packed)
        inner = masked.startswith(_MAPPED) and len(masked) == 16 and ipaddress.IPv4Address(masked[12:])
        return f"::ffff:{inner}" if inner else str(ipaddress.ip_address(masked))

    def _withheld(self, text: str) -> str:
        return f"withheld-{self._number('text', text)}"
