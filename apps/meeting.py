# SPDX-License-Identifier: Apache-2.0
"""A call in a meeting of a real service: both ends join by the same link, as guests who give a name."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from apps.base import Asked, Mode, ServiceError, Stage
from apps.browsers.browser import BrowserEndedError, BrowserError, Driver
from apps.standins.call.camera import FPS, FRAMES, ensure_camera
from apps.two_party import POLL_S, Party, TwoParty

STATE = Path(__file__).with_name("meeting.js").read_text()
PRESS = "[data-sojourn=press]"
#: The picture over the whole screen: nothing of the site's lies over its strip, nor the browser's own controls.
#: A browser fills its screen only within seconds of a press, so ours lies over the page; the site does not see it.
FILL = """() => {
  const style = new CSSStyleSheet();
  style.replaceSync('video::-webkit-media-controls { display: none !important }');
  document.adoptedStyleSheets.push(style);
  const cover = document.createElement('div');
  cover.dataset.sojourn = 'fill';
  cover.popover = 'manual';
  Object.assign(cover.style, { inset: 0, width: '100vw', height: '100vh', border: 0, background: 'transparent' });
  cover.onclick = (event) => {
    event.stopPropagation();
    cover.remove();
    window.__sojourn.filled = window.__sojourn.video().requestFullscreen();
  };
  document.body.append(cover);
  cover.showPopover();
}"""
COVER = "[data-sojourn=fill]"
FILLED = "() => window.__sojourn.filled.then(() => true)"
SIZE = 1280, 720
_ENTER_S, _LOBBY_S = 60.0, 120.0
#: The picture's height counts as settled after so long without a change.
_STEADY_S = 10.0
#: Pictures that stand still for so long: the page is asked whether the meeting is over.
_STILL_S = 2.0


@dataclass(frozen=True)
class MeetingSite:
    """What is known of a service's pages: CSS selectors, and regular expressions for their English text."""

    leave: str
    """What is there while one is in the meeting."""
    press: tuple[str, ...] = ()
    """What is pressed on the way in, the first that is there."""
    words: str = ""
    """The same for buttons that only their text names."""
    guest: str = ""
    """The field of a guest's name."""
    lobby: str = ""
    refused: str = ""


class Meeting(TwoParty):
    """A meeting at `url`."""

    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {"live": ("live",), "url": ("live",)}
    site: ClassVar[MeetingSite]
    #: What a link looks like, for messages, and the hosts that it may have; none: any.
    example: ClassVar[str]
    hosts: ClassVar[tuple[str, ...]] = ()

    def __init__(self, url: str, **of_ends: Any) -> None:
        """For `of_ends` see TwoParty. Raises ServiceError for a link that cannot be one of this service."""
        super().__init__(**of_ends)
        parts = urlsplit(url)
        host = parts.hostname or ""
        known = not self.hosts or any(host == name or host.endswith(f".{name}") for name in self.hosts)
        if parts.scheme not in ("http", "https") or not host or not known or not parts.path.strip("/"):
            raise ServiceError(f"--url={url}: is no link to a meeting of {self.name}, such as {self.example}")
        self.url = url
        self._paths: list[dict[str, Any]] = []
        self._height, self._since = 0, 0.0
        self._still: dict[str, tuple[int, float]] = {}

    @classmethod
    def from_options(cls, asked: Asked) -> Self:
        option = f"--service={cls.name}"
        if not asked.live:
            raise ServiceError(f"{option}: a real service; add --live --url={cls.example}, or take --service=call")
        if not asked.url:
            raise ServiceError(f"{option} --live: give the link to the meeting, --url={cls.example}")
        if why := asked.no_other_end:
            raise ServiceError(why)
        return cls(asked.url, driver=asked.driver, recorder=asked.recorder)

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        self._cameras = [ensure_camera(*SIZE, progress)]

    def call(self, stage: Stage) -> None:
        self._open_far_screen(stage)
        self._dial(stage, self._cameras[0], self.url)
        for end in self._ends:
            fill_screen(end)
        self._paths = [self._path(end) for end in self._ends]

    def address(self, guest: str) -> str:
        """Where `guest` joins."""
        return self.url

    def enter(self, end: Party, url: str) -> None:
        guest = f"Sojourn, {end.name}"
        try:
            end.browser.open(self.address(guest))
        except BrowserError as error:
            raise ServiceError(f"--url={url}: {error}") from error
        end.recorder.start()
        try:
            join(end.browser, self.site, guest)
        except (ServiceError, BrowserError) as error:
            raise ServiceError(f"--url={url}: {end.name}: {error}") from error

    @property
    def settled(self) -> bool:
        """Whether the picture has kept its height for a while: what the site could show at best is not known."""
        sample, now = self.sample(), time.monotonic()
        if sample and sample.height != self._height:
            self._height, self._since = sample.height, now
        return bool(self._height) and now - self._since >= _STEADY_S

    @property
    def failure(self) -> str | None:
        if failure := super().failure:
            return failure
        now = time.monotonic()
        for end in self._ends:
            frames, since = self._still.get(end.name, (-1, now))
            if frames != end.frames:
                self._still[end.name] = end.frames, now
            elif now - since >= _STILL_S:
                self._still[end.name] = frames, now
                if why := left(end.browser, self.site):
                    return f"{end.name}: {why}"
        return None

    @property
    def port(self) -> int:
        """The port from which the other end's picture reaches the client: the service's, or the other end's own."""
        return int(self._paths[1]["remotePort"])

    @property
    def facts(self) -> dict[str, Any]:
        far, client = self._paths
        return {
            "live": True,
            "clip": {"frames": FRAMES, "fps": FPS, "heights": [], "rates_bps": []},
            "call": {"width": SIZE[0], "height": SIZE[1], "client_port": client["port"], "client": client, "far": far},
        }


def fill_screen(end: Party) -> None:
    """Show the picture over the whole screen. Raises ServiceError where a press does not reach the page."""
    end.browser.evaluate(FILL)
    if not end.browser.click(COVER):
        raise ServiceError(f"{end.name}: its picture does not fill the screen: no press reaches the page")
    end.browser.evaluate(FILLED)


def look(browser: Driver, site: MeetingSite) -> dict[str, Any] | None:
    """What the page shows; None while it goes on to another. Raises BrowserEndedError."""
    try:
        return dict(browser.evaluate(f"() => (\n{STATE}\n)({json.dumps(asdict(site))})"))
    except BrowserEndedError:
        raise
    except BrowserError:
        return None


def join(browser: Driver, site: MeetingSite, guest: str, timeout: float = _ENTER_S, lobby: float = _LOBBY_S) -> None:
    """Go through the pages before the meeting as `guest` and return once in it.

    Raises ServiceError that says what the page shows instead, after `timeout` s, or `lobby` s where a host must let
    guests in.
    """
    began, state = time.monotonic(), dict[str, Any]()
    while time.monotonic() < began + (lobby if state.get("lobby") else timeout):
        state = look(browser, site) or state
        if state and not state["secure"]:
            raise ServiceError("the page is plain http: a browser gives its camera to https only")
        if state.get("refused"):
            raise ServiceError(f"the meeting lets no guest in; the page says: {state['refused']}")
        if state.get("joined"):
            return
        if state.get("unnamed"):
            browser.fill(site.guest, guest)
        elif state.get("press"):
            browser.click(PRESS, timeout=0.5)
        time.sleep(POLL_S)
    if state.get("lobby"):
        raise ServiceError(f"not let in for {lobby:g} s: the host must admit guests; the page says: {state['lobby']}")
    if state.get("press"):
        raise ServiceError(f"not in the meeting after {timeout:g} s: the button {state['press']!r} leads nowhere")
    raise ServiceError(f"not in the meeting after {timeout:g} s: the page shows {state.get('shown') or 'nothing'!r}")


def left(browser: Driver, site: MeetingSite) -> str | None:
    """Why the page is no longer in the meeting; None while it is."""
    try:
        state = look(browser, site)
    except BrowserEndedError as ended:
        return str(ended)
    if state is None or (state["joined"] and not state["refused"]):
        return None
    said = state["refused"] or state["lobby"] or state["shown"]
    return f"is no longer in the meeting; the page says: {said or 'nothing'}"
