# SPDX-License-Identifier: Apache-2.0
"""What a page showed when it did not play: a screenshot and its document in the run's logs, without secrets."""

from __future__ import annotations

import base64
from collections.abc import Collection
from pathlib import Path

from sojourn.apps.browsers.account import Command, in_isolated_world
from sojourn.hardware.machine.files import LOGS

_SHOWN = Path(__file__).with_name("shown.js").read_text()
#: Maximum length of a saved document, characters.
_LONGEST = 1 << 19


def keep_shown(command: Command, run: Path, of: str, secrets: Collection[str]) -> str:
    """Save what the page shows to the logs of `run`; `of` names the page's owner if a run has several pages.

    Nothing typed in and none of the `secrets` is in either file. Returns the file names, empty if the page gives
    none. The page is unusable afterwards.
    """
    stem = f"page-{of}" if of else "page"
    folder = run / LOGS
    folder.mkdir(exist_ok=True)
    # Otherwise scripts could restore the removed content before the screenshot.
    command("Emulation.setScriptExecutionDisabled", {"value": True})
    document = in_isolated_world(command, _SHOWN, list(secrets), _LONGEST)
    if not isinstance(document, str):
        return ""
    (folder / f"{stem}.html").write_text(document)
    picture = command("Page.captureScreenshot", {"format": "png"})["data"]
    (folder / f"{stem}.png").write_bytes(base64.b64decode(picture))
    return f"{LOGS}/{stem}.png, .html"


def kept_as(*names: str) -> str:
    """Return the end of an error message that names the saved pages; empty without any."""
    kept = ", ".join(filter(None, names))
    return f" (see {kept})" if kept else ""
