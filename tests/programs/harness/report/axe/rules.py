# SPDX-License-Identifier: Apache-2.0
"""What every page must be: by axe-core without serious violations, and readable on a phone."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from sojourn.apps.standins import origin
from sojourn.hardware.machine import cache as built

_PINNED = Path(__file__).parent
_RULES = """() => axe.run(document, {resultTypes: ["violations"]}).then(found => found.violations
  .filter(it => ["serious", "critical"].includes(it.impact))
  .flatMap(it => it.nodes.map(node => `${it.id}: ${node.html.slice(0, 200)}: ${node.failureSummary}`)))"""
#: The sizes in px of text that is too small on a phone.
_SMALL = """() => [...document.querySelectorAll("body *")].filter(it => it.getClientRects().length &&
  [...it.childNodes].some(node => node.nodeType === Node.TEXT_NODE && node.data.trim())).map(it => {
    const plot = it.ownerSVGElement && it.closest(".plot");
    const scale = plot ? plot.getBoundingClientRect().width / plot.viewBox.baseVal.width : 1;
    return [it.textContent.slice(0, 40), parseFloat(getComputedStyle(it).fontSize) * scale];
  }).filter(([, px]) => px < 11)"""


@cache
def axe() -> str:
    """Return the script of axe-core as its lock file pins it, installed by npm on first use."""

    def install(work: Path) -> None:
        for file in ("package.json", "package-lock.json"):
            shutil.copy(_PINNED / file, work)
        origin.npm_ci(work)

    recipe = hashlib.sha256((_PINNED / "package-lock.json").read_bytes()).hexdigest()[:16]
    there = built.build_once(built.root() / "axe" / recipe, install)
    return (there / "node_modules/axe-core/axe.min.js").read_text()


def judge(chromium: Any, pages: Mapping[str, Path | str]) -> None:
    """Check pages, by their names, on a screen and on a phone, with all that is folded opened."""
    wrong = []
    for name, where in pages.items():
        for width, scheme in ((1280, "light"), (1280, "dark"), (390, "light")):
            context = chromium.new_context(
                viewport={"width": width, "height": 800}, color_scheme=scheme, offline=isinstance(where, Path)
            )
            page, errors = context.new_page(), []
            page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
            page.goto(where.as_uri() if isinstance(where, Path) else where)
            page.evaluate("for (const it of document.querySelectorAll('details')) it.open = true")
            page.evaluate("dispatchEvent(new Event('resize'))")
            page.evaluate(axe())
            found = page.evaluate(_RULES) + errors
            if width < 1280:
                wide = page.evaluate("document.scrollingElement.scrollWidth")
                found += [f"{wide} px wide"] * (wide > width) + page.evaluate(_SMALL)
            wrong += [f"{name}, {width} px, {scheme}: {it}" for it in found]
            context.close()
    assert not wrong, "\n".join(wrong)
