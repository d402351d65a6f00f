# SPDX-License-Identifier: Apache-2.0
"""A call in a meeting of a real service: both ends join through the same link, as named guests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from sojourn.apps.base import Mode, ServiceError, Stage
from sojourn.apps.browsers.account import AccountError, origin
from sojourn.apps.browsers.browser import BrowserEndedError, BrowserError, Driver
from sojourn.apps.credentials import Credentials, let_in, read_credentials
from sojourn.apps.iptv import is_address
from sojourn.apps.options import ServiceOptions
from sojourn.apps.sites import MeetingPage, read_site
from sojourn.apps.standins.call.camera import FPS, FRAMES, ensure_camera
from sojourn.apps.two_party import POLL_S, START_S, Party, TwoParty

STATE = Path(__file__).with_name("meeting.js").read_text()
PRESS = "[data-sojourn=press]"
#: Shows the picture over the whole screen, above the site's and the browser's controls.
#: A browser grants full screen only within seconds of a press, so this element covers the page, unseen by the site.
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
#: A password that is not accepted within this time is wrong.
_PASSWORD_S = 10.0
#: The keys of an account that a meeting can use.
_ENOUGH = (("password",), ("cookie",), ("storage-state",))
#: The picture's height counts as settled after this time without a change.
_STEADY_S = 10.0
#: If pictures stand still for this time, check whether the meeting is over.
_STILL_S = 2.0


class Meeting(TwoParty):
    """A meeting at `url`."""

    takes: ClassVar[Mapping[str, tuple[Mode, ...]]] = {
        "live": ("live",),
        "url": ("live",),
        "credentials": ("live",),
        "profile": ("live",),
    }
    #: An example link, for messages, and the allowed hosts; none: any host.
    example: ClassVar[str]
    hosts: ClassVar[tuple[str, ...]] = ()

    def __init__(self, url: str, *, credentials: Credentials | None = None, **of_ends: Any) -> None:
        """For `of_ends` see TwoParty. Raises ServiceError for a link that does not fit this service."""
        super().__init__(**of_ends)
        parts = urlsplit(url if is_address(url) else "")
        host = parts.hostname or ""
        known = not self.hosts or any(host == name or host.endswith(f".{name}") for name in self.hosts)
        if not host or not known or not parts.path.strip("/"):
            raise ServiceError(
                f"--url={url}: is not a {self.name} meeting link; give one such as {self.example}", code="invalid-value"
            )
        self.url, self.credentials = url, credentials
        self._paths: list[dict[str, Any]] = []
        self._height, self._since = 0, 0.0
        self._still: dict[str, tuple[int, float]] = {}

    @classmethod
    def from_options(cls, options: ServiceOptions) -> Self:
        option = f"--service={cls.name}"
        if not options.live:
            raise ServiceError(
                f"{option} is a real service; add --live --url={cls.example}, or use --service=call", code="conflict"
            )
        if not options.url:
            raise ServiceError(f"{option} --live: give the link to the meeting, --url={cls.example}", code="missing")
        if why := options.far_end_problem:
            raise ServiceError(why, code="unsupported")
        account = read_credentials(cls.name, options.credentials, _ENOUGH)
        return cls(
            options.url, credentials=account, driver=options.driver, recorder=options.recorder, browser=options.browser,
            profile=options.profile,
        )  # fmt: skip

    @property
    def site(self) -> MeetingPage:
        """The known selectors and patterns of its pages."""
        return read_site(self.name, MeetingPage)

    def prepare(self, progress: Callable[[float], None] | None = None) -> None:
        self._cameras = [ensure_camera(*SIZE, progress)]

    def call(self, stage: Stage) -> None:
        self._open_far_screen(stage)
        self._dial(stage, self._cameras[0], self.url)
        for end in self._ends:
            fill_screen(end)
        self._paths = [self._path(end) for end in self._ends]

    def address(self, guest: str) -> str:
        """The address at which `guest` joins."""
        return self.url

    def enter(self, end: Party, url: str) -> None:
        try:
            let_in(end.browser, self.credentials, url)
            end.browser.allow(origin(url), ("videoCapture", "audioCapture"))
            end.browser.open(self.address(guest_name(end)))
        except BrowserError as error:
            raise ServiceError(f"--url={url}: {error}", code=error.code) from error
        end.recorder.start()

    def meet(self) -> None:
        """Let both ends join concurrently: a participant alone in a meeting gets no picture."""
        ways = {
            end.name: join(end.browser, self.site, guest_name(end), self.url, self.credentials) for end in self._ends
        }
        while ways:
            for name, way in list(ways.items()):
                try:
                    next(way)
                except StopIteration:
                    del ways[name]
                except (ServiceError, BrowserError) as error:
                    raise ServiceError(f"--url={self.url}: {name}: {error}", code=error.code) from error
            time.sleep(POLL_S)
        super().meet()

    @property
    def settled(self) -> bool:
        """Whether the picture has kept its height for a while: the site's best quality is not known."""
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
                    return f"{end.name}: {self.credentials.hidden(why) if self.credentials else why}"
        return None

    @property
    def port(self) -> int:
        """The port from which the other end's picture reaches the client: the service's or the other end's."""
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
    """Show the picture over the whole screen. Raises ServiceError if a press does not reach the page."""
    end.browser.evaluate(FILL)
    if not end.browser.click(COVER, timeout=START_S):
        raise ServiceError(
            f"{end.name}: its picture does not fill the screen, because the page received no press", code="no-picture"
        )
    end.browser.evaluate(FILLED)


def with_query(link: str, more: str) -> str:
    """Return the link with `more` added to its query."""
    link, hash_, rest = link.partition("#")
    return f"{link}{'&' if '?' in link else '?'}{more}{hash_}{rest}"


def guest_name(end: Party) -> str:
    """The name of an end in the meeting."""
    return f"Sojourn, {end.name}"


def look(browser: Driver, site: MeetingPage) -> dict[str, Any] | None:
    """Return what the page shows; None during a navigation. Raises BrowserEndedError."""
    try:
        known = site.model_dump_json(exclude={"inside", "waits"})
        conditions = ", ".join([known, *(f"() => {script or 'false'}" for script in (site.inside, site.waits))])
        return dict(browser.evaluate(f"() => (\n{STATE}\n)({conditions})"))
    except BrowserEndedError:
        raise
    except BrowserError:
        return None


def join(
    browser: Driver,
    site: MeetingPage,
    guest: str,
    url: str,
    credentials: Credentials | None = None,
    timeout: float = _ENTER_S,
    lobby: float = _LOBBY_S,
) -> Iterator[None]:
    """Go through the pages before the meeting as `guest`, one step per iteration; ends once `guest` is in the meeting.

    `guest` is in it once somebody's picture arrives: a lobby may have a button to leave, too. Raises ServiceError with
    what the page shows instead, after `timeout` s, or `lobby` s after it first showed that a host must admit guests or
    that nobody else is there yet.
    """
    end, waits, given, state = time.monotonic() + timeout, False, 0.0, dict[str, Any]()
    hidden = credentials.hidden if credentials else str
    while time.monotonic() < end:
        state = look(browser, site) or state
        if state.get("receives"):
            return
        if not waits and (state.get("lobby") or state.get("inside")):
            end, waits = time.monotonic() + lobby, True
        if state and not state["secure"]:
            raise ServiceError("the page uses plain http; browsers allow the camera only over https", code="insecure")
        if state.get("secret"):
            if not (credentials and credentials.password):
                raise ServiceError(
                    "the meeting requires a password; give it as password in --credentials", code="login-required"
                )
            if given and time.monotonic() > given + _PASSWORD_S:
                raise ServiceError(f"the password of {credentials.source} was not accepted", code="login-refused")
            if not given:
                give_password(browser, site, url, credentials)
                given = time.monotonic()
        elif state.get("unnamed"):
            browser.fill(site.guest, guest)
        elif state.get("press"):
            browser.click(PRESS, timeout=0.5)
        elif state.get("refused"):
            break
        yield
    said = hidden(state.get("shown") or "") or "nothing"
    if state.get("refused"):
        raise ServiceError(
            f"not admitted: {state['advice']}; the page says: {hidden(state['refused'])}", code="not-admitted"
        )
    if state.get("lobby"):
        raise ServiceError(
            f"not admitted after {lobby:g} s; the host must admit guests; the page says: {hidden(state['lobby'])}",
            code="not-admitted",
        )
    if state.get("press"):
        raise ServiceError(
            f"not in the meeting after {timeout:g} s: the button {state['press']!r} has no effect", code="not-admitted"
        )
    if state.get("inside"):
        raise ServiceError(
            f"no participant's picture arrived within {lobby:g} s; the page shows {said!r}", code="no-picture"
        )
    raise ServiceError(f"not in the meeting after {timeout:g} s: the page shows {said!r}", code="not-admitted")


def give_password(browser: Driver, site: MeetingPage, url: str, credentials: Credentials) -> None:
    """Fill in the meeting's password on its own site and send it. Raises ServiceError."""
    try:
        given = browser.fill_secret(site.secret, credentials.password, credentials.sites(url))
    except AccountError as error:
        raise ServiceError(f"{credentials.source}: {error}", code=error.code) from error
    if not given or not browser.click(site.submit):
        raise ServiceError("the page requires a password in an unknown form", code="unsupported")


def left(browser: Driver, site: MeetingPage) -> str | None:
    """Return why the page is no longer in the meeting; None while it is."""
    try:
        state = look(browser, site)
    except BrowserEndedError as ended:
        return str(ended)
    if state is None or state["receives"] or (state["inside"] and not state["refused"] and not state["lobby"]):
        return None
    said = state["refused"] or state["lobby"] or state["shown"]
    return f"is no longer in the meeting; the page says: {said or 'nothing'}"
