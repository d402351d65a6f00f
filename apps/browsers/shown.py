# SPDX-License-Identifier: Apache-2.0
"""What a page showed when it did not play: a picture and its document in the run's logs, without anything secret."""

from __future__ import annotations

import base64
import re
from collections.abc import Collection
from pathlib import Path

from sojourn.apps.browsers.account import Command, in_own_world
from sojourn.hardware.machine.files import LOGS

KEPT = re.compile(rf"{LOGS}/page(-\w+)?\.(png|html)")
"""What such files are called in a run."""
_SHOWN = Path(__file__).with_name("shown.js").read_text()
#: Characters of a document that are kept.
_LONGEST = 1 << 19


def keep_shown(command: Command, run: Path, of: str, secrets: Collection[str]) -> str:
    """Write what the page shows into the logs of `run`, `of` naming whose page it is where a run has several.

    Nothing that was typed in and none of the `secrets` is in either file. Returns their names, empty where the page
    gives none; it is of no use afterwards.
    """
    stem = f"page-{of}" if of else "page"
    folder = run / LOGS
    folder.mkdir(exist_ok=True)
    # Else it might show again what is taken out before its picture is taken.
    command("Emulation.setScriptExecutionDisabled", {"value": True})
    document = in_own_world(command, _SHOWN, list(secrets), _LONGEST)
    if not isinstance(document, str):
        return ""
    (folder / f"{stem}.html").write_text(document)
    picture = command("Page.captureScreenshot", {"format": "png"})["data"]
    (folder / f"{stem}.png").write_bytes(base64.b64decode(picture))
    return f"{LOGS}/{stem}.png, .html"


def kept_as(*names: str) -> str:
    """How the line of an error ends that tells of kept pages; empty without any."""
    kept = ", ".join(filter(None, names))
    return f" (what is shown: {kept})" if kept else ""
