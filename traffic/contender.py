# SPDX-License-Identifier: Apache-2.0
"""The contenders: the congestion control of a bulk flow, and the ECN mode it negotiates."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sojourn.hardware.machine.place import Place
from sojourn.hardware.machine.plugins import merge_with_builtin, offered

ECN_FILES = ("/proc/sys/net/ipv4/tcp_ecn", "/proc/sys/net/ipv4/tcp_ecn_fallback")
"""What `Contender.prepare` sets at both ends: the mode, and whether a repeated SYN gives up ECN (RFC 3168, 6.1.1.1).

Linux does give it up, and a queue full of another flow loses SYNs: the flow would not be what its name says.
"""
_AVAILABLE = "/proc/sys/net/ipv4/tcp_available_congestion_control"
NO_ECN, CLASSIC_ECN, ACCURATE_ECN = 0, 1, 3  # values of net.ipv4.tcp_ecn


class ContenderError(RuntimeError):
    """A host does not support a contender; the message says what is missing."""


@dataclass(frozen=True)
class Contender:
    """A congestion control by its kernel name and the `net.ipv4.tcp_ecn` of both ends."""

    name: str
    cc: str
    tcp_ecn: int
    ect1: bool = False
    """Whether it sends ECT(1), like L4S; other contenders with ECN send ECT(0)."""
    sce: bool = False
    """Whether its receiver reports ECT(0) that a queue changed to ECT(1) (Some Congestion Experienced)."""

    def check(self, sender: Place, receiver: Place) -> None:
        """Raise `ContenderError` if an end does not support the congestion control or the ECN mode."""
        # iperf3 sets the same congestion control on its server, and DCTCP's feedback needs it at the receiver.
        for place in (sender, receiver):
            available = place.run(["cat", _AVAILABLE]).split()
            if self.cc not in available:
                raise ContenderError(
                    f"{place.name}: congestion control {self.cc} of contender {self.name} is not available: "
                    f"its kernel has {', '.join(available)}; build or load tcp_{self.cc}"
                )

    def prepare(self, sender: Place, receiver: Place) -> None:
        """Set and read back both ends' `ECN_FILES`; a new flow uses them. Raises `ContenderError`."""
        self.check(sender, receiver)
        set_ecn(self, sender, receiver)


def set_ecn(contender: Contender, sender: Place, receiver: Place) -> None:
    """Set and read back both ends' `ECN_FILES` for a contender; a new flow uses them. Raises `ContenderError`."""
    for place in (sender, receiver):
        for file, needed in zip(ECN_FILES, (contender.tcp_ecn, 0), strict=True):
            read_back = place.run(["sh", "-c", f"echo {needed} > {file} && cat {file}"], check=False).strip()
            if read_back != str(needed):
                raise ContenderError(
                    f"{place.name}: {file.removeprefix('/proc/sys/').replace('/', '.')}: requested {needed} for "
                    f"contender {contender.name}, found {read_back or 'nothing'}"
                    + ("; accurate ECN needs a kernel of 6.18 or newer" if needed == ACCURATE_ECN else "")
                )


class EcnModes:
    """The `ECN_FILES` of places as they are now, to be restored: also the victim's next connection would use a change.

    Raises CommandError.
    """

    def __init__(self, *places: Place) -> None:
        self._was = [(place, file, place.run(["cat", file]).strip()) for place in places for file in ECN_FILES]

    def restore(self) -> None:
        """Write them again. Raises CommandError."""
        for place, file, mode in self._was:
            place.run(["sh", "-c", f"echo {mode} >{file}"])


#: Controls that also respond to Some Congestion Experienced (hardware/kernel/tcp_sce.c), in the virtual nodes' kernel.
_SCE = ("reno-sce", "dctcp-sce", "cubic-sce")
#: Further loss-based controls that a kernel may have; the virtual nodes' kernel has them all.
_FURTHER = (
    "bic",
    "cdg",
    "highspeed",
    "htcp",
    "hybla",
    "illinois",
    "lp",
    "nv",
    "scalable",
    "vegas",
    "veno",
    "westwood",
    "yeah",
)

OURS = {
    c.name: c
    for c in (
        Contender("cubic", "cubic", CLASSIC_ECN),
        Contender("cubic-accecn", "cubic", ACCURATE_ECN),
        Contender("cubic-noecn", "cubic", NO_ECN),
        Contender("reno", "reno", CLASSIC_ECN),
        Contender("reno-accecn", "reno", ACCURATE_ECN),
        Contender("reno-noecn", "reno", NO_ECN),
        Contender("bbr", "bbr", NO_ECN),
        Contender("dctcp", "dctcp", CLASSIC_ECN),
        Contender("prague", "prague", ACCURATE_ECN, ect1=True),
        Contender("prague-2020", "prague-2020", ACCURATE_ECN, ect1=True),
        Contender("ledbat", "ledbat", NO_ECN),
        *(Contender(name, name, CLASSIC_ECN, sce=True) for name in _SCE),
        *(Contender(name, name, CLASSIC_ECN) for name in _FURTHER),
    )
}
_THEIRS = {contender.name: contender for contender in offered("sojourn.contenders", Contender)}
PREFIX = "tcp_"
"""Begins the name of a contender by a congestion control of the user's own kernel: `tcp_NAME`, as its module."""
#: What is added to that name for another ECN mode than classic ECN.
_MODES = {
    "": (CLASSIC_ECN, False),
    "noecn": (NO_ECN, False),
    "accecn": (ACCURATE_ECN, False),
    "l4s": (ACCURATE_ECN, True),
}
_OWN = re.compile(rf"{PREFIX}(?P<cc>[a-z0-9_][a-z0-9_-]{{0,14}}?)(?:-(?P<mode>noecn|accecn|l4s))?")


OPTIONAL = {"bbr3": Contender("bbr3", "bbr3", NO_ECN)}
"""Contenders that Sojourn has and its default kernel lacks: --kernel-source=hardware/kernel/NAME builds one with it."""


class _Contenders(dict[str, Contender]):
    """The contenders by name; also OPTIONAL and, of the user's own kernel, `tcp_NAME`, which iterations do not list."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in OPTIONAL or _own(name) is not None

    def __missing__(self, name: str) -> Contender:
        if name in OPTIONAL:
            return OPTIONAL[name]
        if own := _own(name):
            return own
        raise KeyError(name)


def _own(name: Any) -> Contender | None:
    if not (isinstance(name, str) and (match := _OWN.fullmatch(name))):
        return None
    tcp_ecn, ect1 = _MODES[match["mode"] or ""]
    return Contender(name, match["cc"], tcp_ecn, ect1)


CONTENDERS = _Contenders(merge_with_builtin(OURS, _THEIRS, "sojourn.contenders"))
"""The contenders by name. `tcp_NAME`, of the user's own kernel, is one too, with -noecn, -accecn (accurate ECN) or -l4s
(accurate ECN and ECT(1)) after it for another mode than classic ECN."""
