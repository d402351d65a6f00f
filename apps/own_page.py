# SPDX-License-Identifier: Apache-2.0
"""Any page with a video: at an address, or in the user's folder, which the lab's origin serves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

from sojourn.apps.base import Mode, ServiceError, Stage
from sojourn.apps.browsers.browser import Browser, BrowserError
from sojourn.apps.iptv import PLAY, asking, is_address, port_of
from sojourn.apps.options import ServiceOptions
from sojourn.apps.page_service import PageService, states
from sojourn.apps.standins.clip import Clip
from sojourn.apps.standins.origin import Site
from sojourn.apps.standins.own_folder import OwnFolder
from sojourn.traffic import ports

#: An exception of the user's script is returned as text, because a navigation also raises an error.
_CALLED = """async () => {{ try {{ await (
{script}
)(); return ''; }} catch (error) {{ return String(error); }} }}"""


class OwnPage(PageService):
    """One page. Without a script, its videos' play() is called."""

    name = "page"
    ladder: tuple[str, ...] = ()
    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {
        "url": ("own", "stream"),
        "script": ("own", "stream"),
        "origin-cc": ("own",),
        "origin-protocol": ("own",),
        "origin-server": ("own",),
    }

    def __init__(self, *, url: str, script: str = "", **of_page: Any) -> None:
        """`url`: the page, `script`: a JavaScript function, called a few times a second until a video plays.

        For `of_page` see PageService. Raises ServiceError for options that do not fit.
        """
        if not url:
            raise ServiceError(
                "--service=page: give the page, --url=https://… or --url=FOLDER/index.html", code="missing"
            )
        if "own" not in of_page and not is_address(url):
            raise ServiceError(f"--url={url}: is not an http or https address", code="invalid-value")
        super().__init__(standin="own" in of_page, **of_page)
        self.url, self.script = (Path(url).name if self.standin else url), script
        self.buffer = 0.0  # unknown for a third-party page

    @classmethod
    def page_options(cls, options: ServiceOptions) -> dict[str, Any]:
        try:
            script = options.script.read_text() if options.script else ""
        except (OSError, UnicodeDecodeError) as error:
            raise ServiceError(f"--script={options.script}: {error}", code="unreadable-file") from error
        return {"url": options.url, "script": script} | ({"own": Path(options.url)} if options.own_folder else {})

    @property
    def prepared(self) -> dict[str, Any]:
        return super().prepared | {"script": self.script}

    def take(self, prepared: Mapping[str, Any]) -> None:
        super().take(prepared)
        self.script = prepared["script"]

    def site(self, stage: Stage, clip: Clip) -> tuple[Site, str]:
        raise ServiceError("--service=page has no stand-in film", code="unsupported")

    def own_site(self, own: OwnFolder) -> tuple[Site, str]:
        return Site(own.folder, own.folder / "media"), f"/{own.path}"

    def address(self) -> tuple[str, tuple[str, ...]]:
        return self.url, ()

    def await_playing(self, browser: Browser) -> None:
        wait_playing(browser, self.script)

    @property
    def port(self) -> int:
        """The port of the page's server, assumed to send its video."""
        if self.standin:
            return ports.ORIGIN
        return port_of(self.url)

    @property
    def settled(self) -> bool:
        """Always true: the page's best quality is not known."""
        return True

    @property
    def player(self) -> str:
        return "a page of the user's" if self.standin else f"{urlsplit(self.url).hostname}"


def wait_playing(browser: Browser, script: str, timeout: float = 60) -> None:
    """Return when a video of the page plays; the user's script, or the videos' own play(), starts it.

    Raises ServiceError with what the script throws, or what is missing on the page.
    """
    state: dict[str, Any] = {}
    script_call, said = _CALLED.format(script=script.strip().rstrip(";")) if script.strip() else PLAY, ""
    for state in states(browser, asking(), timeout):
        if state["playing"]:
            return
        try:
            thrown, said = browser.evaluate(script_call), ""
        except BrowserError as error:  # a navigation, or the script is not valid
            thrown, said = "", f"; {error}"
        if thrown:
            raise ServiceError(f"--script: {thrown}", code="script-failed")
    shown = "a video that does not play" if state.get("video") else "no video"
    raise ServiceError(f"no picture after {timeout:g} s: the page has {shown}{said}", code="no-picture")
