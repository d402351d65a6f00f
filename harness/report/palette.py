# SPDX-License-Identifier: Apache-2.0
"""The look of everyone who appears in a plot, declared once for pages, figures and films.

A colour means the same one everywhere: the victim, a contender by its name, a queue. Lines also differ by their dashes.
Series without an identity (`flow 1`, a cell's label) have muted colours.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32


class Look(NamedTuple):
    """A colour on light and on dark paper, and the dashes of a line; at least 3:1 against both papers."""

    light: str
    dark: str
    dash: str = ""


_MUTED = {
    "other-1": Look("#4a6785", "#9fb9d4"),
    "other-2": Look("#8a5a4a", "#d3a793", "9 3"),
    "other-3": Look("#4c7566", "#96c4b3", "5 3"),
    "other-4": Look("#77608a", "#c3aed6", "9 3 2 3"),
    "other-5": Look("#6b6a3a", "#c4c38a", "14 4"),
    "other-6": Look("#7a4a58", "#d09cac", "5 3 1 3"),
}
_VICTIM = Look("#0b62c4", "#6cb2ff")
LOOKS = {
    "victim": _VICTIM,
    "alone": _VICTIM._replace(dash="2 3"),
    "cubic": Look("#c4420b", "#ff9a62", "9 3"),
    "prague": Look("#8250df", "#c297ff"),
    "bbr": Look("#3f7a0a", "#9bd65a", "9 3 2 3"),
    "reno": Look("#8a5d00", "#e3b341", "5 3"),
    "dctcp": Look("#b8327f", "#ff8ac9", "14 4"),
    "ledbat": _MUTED["other-1"],
    "web": _MUTED["other-2"],
    "video": _MUTED["other-3"],
    "call": _MUTED["other-4"],
    # dualpi2's queues, and the probes that wait in them; C also for the only queue of others.
    "l": Look("#0e7490", "#5fd3e8", "5 3"),
    "c": Look("#57606a", "#a8b3be"),
    "unshaped": Look("#848d97", "#848d97", "1.5 4"),
    "marks": Look("#1b1f24", "#e6edf3", "2 3"),
    "sce": Look("#57606a", "#a8b3be", "9 3 2 3"),
    "drops": Look("#d1242f", "#ff6b6b"),
    "stall": Look("#d1242f", "#ff6b6b"),
    "freeze": Look("#bf8700", "#e3b341"),
    "quality": Look("#1a7f37", "#56d364"),
    "published": Look("#1b1f24", "#e6edf3", "1.5 2.5"),
    **_MUTED,
}
"""Every look, by the name of its CSS class without `who-`."""
#: Other words for them, in names of phases, probes and series.
_ALIASES = {
    "solo": "alone", "c queue": "c", "not-ect": "c", "l queue": "l", "ect(1)": "l", "ect1": "l",
}  # fmt: skip
_WORD = re.compile(r"[a-z0-9_]+")
#: Dashes of further series with the same colour.
_DASHES = ("2 3", "7 2 2 2 2 2", "12 2 2 2", "4 4")


def who(name: str) -> str:
    """Return the CSS classes of a contender, a phase, a probe or a queue by its name.

    `prague-2 (upload)` is Prague; a variant such as `prague-2020` has Prague's colour and dots. An unknown name always
    has the same muted colour.
    """
    return _known(name) or f"who-other-{crc32(name.encode()) % len(_MUTED) + 1}"


def looks(names: Sequence[str]) -> list[str]:
    """Return the CSS classes of the series of one plot; those of one colour have different dashes."""
    kinds, taken, muted = [], Counter[str](), 0
    for name in names:
        kind = _known(name)
        if not kind:
            kind, muted = f"who-other-{muted % len(_MUTED) + 1}", muted + 1
        colour = kind.split()[0]
        kinds.append(f"{colour} dash-{(taken[colour] - 1) % len(_DASHES) + 1}" if taken[colour] else colour)
        taken[colour] += 1
    return kinds


def _known(name: str) -> str:
    lowered = name.lower()
    if known := _ALIASES.get(lowered, lowered if lowered in LOOKS else ""):
        return f"who-{known}"
    for match in _WORD.finditer(lowered):
        word = _ALIASES.get(match[0], match[0])
        if word in LOOKS and len(word) > 1:
            # Not `prague-2`, the second phase with it.
            variant = re.match(r"-(?=[a-z]|\d{3})", lowered[match.end() :])
            return f"who-{word}" + (" variant" if variant else "")
    return ""


def colours(dark: bool = False) -> dict[str, str]:
    """Return the colour of every class."""
    return {f"who-{name}": look.dark if dark else look.light for name, look in LOOKS.items()}


def rules() -> list[str]:
    """Return the CSS rules of plots, in terms of the variables `--who-NAME`; each is one line."""
    lines = []
    for name, look in LOOKS.items():
        lines.append(f".plot .who-{name} {{ color: var(--who-{name}) }}")
        if look.dash:
            lines.append(f".plot .line.who-{name} {{ stroke-dasharray: {look.dash} }}")
    lines.append(".plot .line.solid { stroke-dasharray: none }")
    lines.append(f".plot .line.variant {{ stroke-dasharray: {_DASHES[0]} }}")
    lines += [f".plot .line.dash-{n} {{ stroke-dasharray: {dash} }}" for n, dash in enumerate(_DASHES, 1)]
    return lines


def sheet() -> str:
    """Return the style sheet: the colours on light, dark and printed pages, and the rules."""
    light, dark = (" ".join(f"--{name}: {colour};" for name, colour in colours(of).items()) for of in (False, True))
    return "\n".join(
        [
            f":root {{ {light} }}",
            f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}",
            *rules(),
        ]
    )
