# SPDX-License-Identifier: Apache-2.0
"""The qdiscs and congestion controls of a user's own kernel: what options call them, and which ones there are."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from sojourn.bottleneck.qdiscs import KINDS, Qdisc
from sojourn.bottleneck.qdiscs.own import PREFIX as QDISC
from sojourn.bottleneck.qdiscs.own import OwnQdisc
from sojourn.hardware.kernel_build import own_files
from sojourn.hardware.kernel_build.kconfig import FRAGMENTS
from sojourn.hardware.machine.messages import did_you_mean
from sojourn.harness.options.timeline import TIMELINES
from sojourn.traffic.contender import CONTENDERS, OPTIONAL
from sojourn.traffic.contender import PREFIX as CONTENDER
from sojourn.traffic.load import APPLICATIONS, TESTS

_LOAD_WORD = re.compile(r"[a-z0-9_.-]+")
_MODE = re.compile(r"-(noecn|accecn|l4s)$")
_PAGE = "docs/your-qdisc.md"
#: Words of contenders and timelines that are no congestion controls.
_TAKEN = {*APPLICATIONS, *TESTS, *TIMELINES, "solo"}


@dataclass(frozen=True)
class OwnNames:
    """What a kernel has in addition to Sojourn's."""

    source: Path | None = None
    """None: Sojourn's kernel."""
    qdiscs: Collection[str] | None = ()
    """None: unknown, as of a whole Linux."""
    controls: Collection[str] | None = ()
    optional: Collection[str] = ()
    """Those of `OPTIONAL` that it has; a whole Linux may have any."""

    def spelled_qdisc(self, text: str) -> str:
        """Return tc's words with the name that records have: `sch_mine limit 100` for `mine limit 100`."""
        first, *rest = text.split(maxsplit=1) or [""]
        return " ".join([f"{QDISC}{first}", *rest]) if self.qdiscs and first in self.qdiscs else text

    def spelled_load(self, text: str) -> str:
        """Return contenders or a timeline with the names that records have: `tcp_mine*2,cubic` for `mine*2,cubic`."""
        controls = self.controls or ()
        return _LOAD_WORD.sub(
            lambda word: f"{CONTENDER}{word[0]}" if _MODE.sub("", word[0]) in controls else word[0], text
        )

    def misspelt(self, text: str, own: Collection[str]) -> str:
        """Return which word of a qdisc or a load is unknown, and similar to one of `own`; empty without one.

        `own` are this kernel's `qdiscs` or `controls`.
        """
        for word in _LOAD_WORD.findall(text):
            known = word in _TAKEN or word in CONTENDERS or word in KINDS or word.startswith((QDISC, CONTENDER))
            if known or word == "up" or word[0].isdigit():
                continue
            if hint := did_you_mean(word, own, alike=0.7):
                return f"unknown name {word!r}; {hint} {self.source} has: {', '.join(own)}"
        return ""

    def unknown_qdisc(self, qdisc: Qdisc | None) -> str:
        """Return why this kernel does not have a qdisc; empty if it has."""
        if not isinstance(qdisc, OwnQdisc):
            return ""
        return self._unknown(f"{QDISC}{qdisc.name}", qdisc.name, self.qdiscs, "qdisc")

    def unknown_contender(self, names: Iterable[str]) -> str:
        """Return why this kernel does not have the first of these contenders that it does not have; empty if none."""
        return next(filter(None, map(self._unknown_contender, names)), "")

    def _unknown_contender(self, name: str) -> str:
        if name in OPTIONAL and name not in self.optional and self.controls is not None:
            return f"{name} is not in this kernel; add --kernel-source={FRAGMENTS / name} ({_PAGE})"
        if not name.startswith(CONTENDER) or name not in CONTENDERS:
            return ""
        known = None if self.controls is None else (*self.controls, *self.optional)
        return self._unknown(name, CONTENDERS[name].cc, known, "congestion control")

    def _unknown(self, name: str, bare: str, known: Collection[str] | None, what: str) -> str:
        if known is None or bare in known:
            return ""
        if not self.source:
            return f"{name} is a {what} of your own kernel; add --kernel-source=FOLDER ({_PAGE})"
        return f"{self.source} has no {what} {bare!r}; it has: {', '.join(known) or 'none'}"


def own_names(source: Path | None) -> OwnNames:
    """Return the names that a kernel source adds. Raises ValueError, OSError."""
    if not source:
        return OwnNames()
    if not own_files.has_own_files(source):
        return OwnNames(source, None, None)
    own = own_files.read(source)
    for name, file in own.controls.items():
        if name in _TAKEN or _MODE.search(name):
            raise ValueError(f"{source / file}: {name!r} means something else in contenders and timelines; rename it")
    return OwnNames(
        source,
        [name for name in own.qdiscs if name not in KINDS],
        [name for name in own.controls if name not in CONTENDERS],
        [name for name in own.controls if name in OPTIONAL],
    )
