# SPDX-License-Identifier: Apache-2.0
"""Live calls: the way in against pieces of the services' pages, and two real browsers in a room like Jitsi's."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import sojourn.apps.meeting
from sojourn.apps import SERVICES
from sojourn.apps.base import ServiceError, Stage
from sojourn.apps.credentials import Credentials
from sojourn.apps.jitsi import Jitsi
from sojourn.apps.meeting import join, left
from sojourn.apps.sites import MeetingPage, read_site
from sojourn.apps.teams import Teams
from sojourn.apps.two_party import FAR, TwoParty
from sojourn.captures.player import CALL_SCRIPT, SCRIPT
from sojourn.hardware.machine.display import Display
from sojourn.hardware.machine.errors import Code
from sojourn.hardware.machine.place import LOCAL
from sojourn.harness.options.rules import parse_options
from sojourn.scoring.gates.calls import call_path
from sojourn.scoring.picture import frames, glass_to_glass, strip
from tests.programs.apps.jitsi_room import PAGE, jitsi_room
from tests.programs.apps.tab import Tab
from tests.refusals import refusal
from tests.tiers import first

#: What the scripts of a meeting's page do once somebody is let in: pictures come, here from the page itself.
MEETS = """<script>
  window.meets = async () => {
    const [far, here] = [new RTCPeerConnection(), new RTCPeerConnection()];
    far.onicecandidate = ({ candidate }) => here.addIceCandidate(candidate);
    here.onicecandidate = ({ candidate }) => far.addIceCandidate(candidate);
    here.ontrack = ({ streams: [stream] }) => {
      const video = Object.assign(document.createElement('video'), { muted: true, autoplay: true, srcObject: stream });
      document.body.append(video);
    };
    const canvas = document.createElement('canvas');
    const context = canvas.getContext('2d');
    let n = 0;
    setInterval(() => { context.fillStyle = n++ % 2 ? 'red' : 'blue'; context.fillRect(0, 0, 300, 150); }, 30);
    const stream = canvas.captureStream(30);
    far.addTrack(stream.getTracks()[0], stream);
    await far.setLocalDescription();
    await here.setRemoteDescription(far.localDescription);
    await here.setLocalDescription();
    await far.setRemoteDescription(here.localDescription);
  };
  // What is there after the button that joins: what a test says, or a meeting in which somebody shows himself.
  window.enters = (leave) => {
    const stage = document.createElement('div');
    stage.innerHTML = window.then || leave;
    document.body.append(stage);
    if (!window.then) meets();
  };
</script>"""
# The page that offers the desktop's client, the prompt for devices, the camera's preview, then the meeting.
TEAMS = """
<div id="launcher"><h1>How do you want to join your Teams meeting?</h1>
  <button data-tid="joinOnApp">Join on the Teams app</button>
  <button data-tid="joinOnWeb">Continue on this browser</button></div>
<div id="devices" role="dialog" hidden><h2>Are you sure you don't want audio or video?</h2>
  <button>Continue without audio or video</button></div>
<div id="prejoin" hidden><input data-tid="prejoin-display-name-input" placeholder="Type your name">
  <input type="checkbox" role="switch" data-tid="toggle-mute" checked aria-label="Microphone">
  <div role="checkbox" data-tid="toggle-video" aria-checked="false" aria-label="Camera">cam</div>
  <button data-tid="prejoin-join-button">Join now</button></div>
<script>
  const part = (id) => document.getElementById(id);
  const by = (tid) => document.querySelector(`[data-tid=${tid}]`);
  by('joinOnWeb').onclick = () => { launcher.remove(); part('devices').hidden = false; };
  part('devices').querySelector('button').onclick = () => { devices.remove(); part('prejoin').hidden = false; };
  by('toggle-video').onclick = ({ currentTarget }) => currentTarget.setAttribute('aria-checked', 'true');
  by('prejoin-join-button').onclick = ({ isTrusted }) => {
    window.joined = [by('prejoin-display-name-input').value, by('toggle-mute').checked,
      by('toggle-video').getAttribute('aria-checked')];
    if (!isTrusted || !joined[0]) return;
    part('prejoin').remove();
    enters('<button id="hangup-button" data-tid="hangup-main-btn">Leave</button>');
  };
</script>
"""
MEET = """
<div jsname="x"><button jsname="a1"><span>Got it</span></button></div>
<div id="green" hidden><input type="text" aria-label="Your name" placeholder="Your name">
  <div role="button" aria-label="Turn off microphone">mic</div><div role="button" aria-label="Turn off camera">cam</div>
  <button jsname="w">Other ways to join</button>
  <button jsname="b2" disabled><span>Ask to join</span></button></div>
<script>
  const got = document.querySelector('[jsname=a1]');
  const ask = document.querySelector('[jsname=b2]');
  const [name] = document.querySelectorAll('input');
  const [sound] = document.querySelectorAll('[role=button]');
  got.onclick = () => { got.remove(); green.hidden = false; };
  sound.onclick = () => sound.setAttribute('aria-label', 'Turn on microphone');
  name.oninput = () => { ask.disabled = !name.value; };
  ask.onclick = () => {
    window.joined = [name.value, sound.getAttribute('aria-label')];
    green.remove();
    const lobby = document.createElement('div');
    lobby.innerHTML = '<p>You will join soon</p><button aria-label="Leave call">x</button>';
    document.body.append(lobby);
    setTimeout(() => { lobby.remove(); enters('<button aria-label="Leave call">x</button>'); }, 700);
  };
</script>
"""
# A room of Jitsi Meet that asks for its password, as its PasswordRequiredPrompt does.
LOCKED = """
<form role="dialog"><h1>Password required</h1>
  <input id="required-password-input" name="lockKey" type="password">
  <button id="modal-dialog-ok-button" type="button">OK</button></form>
<script>
  const [field] = document.querySelectorAll('input');
  const dialog = document.querySelector('form');
  document.querySelector('button').onclick = ({ isTrusted }) => {
    window.tries = (window.tries || 0) + 1;
    if (isTrusted && field.value === 'opensesame') { dialog.remove(); enters('<p class="hangup-button">x</p>'); }
    field.value = '';
  };
</script>
"""
TEAMS_SITE, MEET_SITE, JITSI_SITE = (read_site(name, MeetingPage) for name in ("teams", "meet", "jitsi"))


def show(tab: Tab, content: str, then: str = "", url: str = "https://meeting.test/") -> None:
    """Serve `content`; `then` is what stands in its place once somebody has asked to join."""
    page = f"<meta charset=utf-8><script>window.then = {json.dumps(then)}</script><body>{MEETS}{content}"
    for script in (SCRIPT, CALL_SCRIPT):
        tab.page.add_init_script(path=script)
    tab.page.route("**/*", lambda route: route.fulfill(body=page, content_type="text/html"))
    tab.open(url)


def enter(tab: Tab, site: MeetingPage, guest: str = "Ann", **given: Any) -> None:
    """Join as a service does."""
    for _ in join(tab, site, guest, "https://meeting.test/", **given):
        time.sleep(0.2)


def test_teams_is_joined_in_the_browser_muted_with_a_camera_and_under_a_name(tab: Tab) -> None:
    show(tab, TEAMS)
    enter(tab, TEAMS_SITE, timeout=15)
    assert tab.evaluate("() => window.joined") == ["Ann", False, "true"]
    assert tab.evaluate("() => window.__sojourn.receives") and left(tab, TEAMS_SITE) is None


@pytest.mark.parametrize("button", ["Ask to join", "Ask to join anyway", "Join the call now", "Join now"])
def test_meet_is_joined_muted_and_under_a_name_through_a_lobby_that_can_be_left(tab: Tab, button: str) -> None:
    show(tab, MEET.replace("<span>Ask to join<", f"<span>{button}<"))
    enter(tab, MEET_SITE, timeout=15)
    assert tab.evaluate("() => window.joined") == ["Ann", "Turn on microphone"]
    assert tab.evaluate("() => window.__sojourn.receives") and left(tab, MEET_SITE) is None


@pytest.mark.parametrize("query", ["", "?stubborn"])
def test_jitsis_first_page_is_skipped_or_gone_through(tab: Tab, query: str) -> None:
    """A server need not honour what the link asks for."""
    address = Jitsi(f"https://meet.test/Room{query}").address("Ann & Bo")
    show(tab, PAGE, url=address)
    for _ in join(tab, JITSI_SITE, "Ann & Bo", address, timeout=10):
        if tab.evaluate("() => window.joinedAs") is not None:
            break
        time.sleep(0.1)
    assert tab.evaluate("() => window.joinedAs") == "Ann & Bo"


def test_the_password_of_a_room_is_typed_in(tab: Tab) -> None:
    show(tab, LOCKED)
    enter(tab, JITSI_SITE, credentials=Credentials("call.toml", password="opensesame"), timeout=15)
    assert tab.evaluate("() => window.tries") == 1


@pytest.mark.parametrize(
    ("credentials", "why"),
    [
        (None, ("login-required", "--credentials")),
        (Credentials("call.toml", password="open door"), ("login-refused", "call.toml")),
    ],
)
def test_a_password_that_is_missing_or_wrong_is_told(
    tab: Tab, credentials: Credentials | None, why: tuple[Code, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sojourn.apps.meeting, "_PASSWORD_S", 1.0)
    show(tab, LOCKED)
    with refusal(ServiceError, *why):
        enter(tab, JITSI_SITE, credentials=credentials, timeout=10)
    assert tab.evaluate("() => window.tries ?? 0") == (1 if credentials else 0)


def test_a_password_goes_to_the_meetings_own_site_alone(tab: Tab) -> None:
    show(tab, LOCKED, url="https://thief.test/")
    with refusal(ServiceError, "other-site", "https://thief.test", "https://meeting.t"):
        enter(tab, JITSI_SITE, credentials=Credentials("call.toml", password="opensesame"), timeout=10)


# What a room's scripts say of themselves, whatever the language of its page.
ROOM = """<p>Čekejte</p><script>
  window.APP = {{
    conference: {{ _room: {{ isJoined: () => {joined} }} }},
    store: {{ getState: () => ({{ 'features/lobby': {{ knocking: {knocking} }} }}) }},
  }};
</script>"""
LEAVE = '<button id="hangup-button" class="hangup-button" aria-label="Leave call">Leave</button>'


@pytest.mark.parametrize(
    ("site", "content", "then", "why"),
    [
        (TEAMS_SITE, TEAMS, "<p>Someone will let you in shortly</p>", ("not-admitted", " 3 s", ": Someone")),
        (
            MEET_SITE,
            MEET,
            f"<p>You’ll join the call when someone lets you in</p>{LEAVE}",
            ("not-admitted", "You'll join"),
        ),
        (MEET_SITE, MEET, LEAVE, ("no-picture", " 3 s", "'Leave'")),
        (
            TEAMS_SITE,
            TEAMS,
            "<p>Sorry, but you were denied access to the meeting.</p>",
            ("not-admitted", "both ends", ": Sorry, but"),
        ),
        (
            TEAMS_SITE,
            "<h1>Sign in to join this meeting</h1>",
            "",
            ("not-admitted", "guests", "--profile", ": Sign in to"),
        ),
        (TEAMS_SITE, "<h1>You need to sign in</h1>", "", ("not-admitted", "organiser", "guests")),
        (TEAMS_SITE, "<p>Only people in this org can join</p>", "", ("not-admitted", "organisation", "--profile")),
        (TEAMS_SITE, "<p>Let's verify your email</p>", "", ("not-admitted", "mail")),
        (TEAMS_SITE, "<h1>Pick an account</h1>", "", ("not-admitted", "accounts")),
        (TEAMS_SITE, "<p>Your session has expired</p>", "", ("not-admitted", "log in", "profile")),
        (TEAMS_SITE, "<p>Your browser isn’t supported</p>", "", ("not-admitted", "(--browser)")),
        (TEAMS_SITE, "<p>Enter the characters you see</p>", "", ("not-admitted", "human")),
        (TEAMS_SITE, '<iframe src="/captcha/x"></iframe>', "", ("not-admitted", "human", ": captcha")),
        (TEAMS_SITE, "<p>We couldn't connect you</p><button>Reload</button>", "", ("not-admitted", "link")),
        (MEET_SITE, "<h1>You can't join this video call</h1>", "", ("not-admitted", "guests", ": You can't join this")),
        (
            MEET_SITE,
            "<p>Sign in with your Google account</p>",
            "",
            ("not-admitted", "guests", "--profile ", "Sign in with"),
        ),
        (
            MEET_SITE,
            MEET,
            "<p>Someone in the call denied your request to join</p>",
            ("not-admitted", "both ends", "denied your req"),
        ),
        (
            JITSI_SITE,
            "<p>Your join request has been rejected by a moderator.</p>",
            "",
            ("not-admitted", "both ends", "rejected by"),
        ),
        (
            JITSI_SITE,
            "<p>Waiting for an authenticated user</p><button>I am the host</button>",
            "",
            ("not-admitted", "room"),
        ),
        (JITSI_SITE, ROOM.format(joined="false", knocking="true"), "when", ("not-admitted", " 3 s", ": Čekejte")),
        (JITSI_SITE, ROOM.format(joined="true", knocking="false"), "when", ("no-picture", " 3 s")),
        (
            JITSI_SITE,
            '<button data-testid="prejoin.joinMeeting">Join meeting</button>',
            "",
            ("not-admitted", " 1 s", " button 'Join meeting' "),
        ),
        (TEAMS_SITE, "<h1>About  us</h1>", "", ("not-admitted", " 1 s", "'About us'")),
        (TEAMS_SITE, "", "", ("not-admitted", " 1 s", "'nothing'")),
    ],
)
def test_what_stands_in_the_way_is_told_in_time(
    tab: Tab, site: MeetingPage, content: str, then: str, why: tuple[Code, *tuple[str, ...]]
) -> None:
    show(tab, content, then)
    began = time.monotonic()
    with refusal(ServiceError, *why):
        enter(tab, site, timeout=1 if " 1 s" in why else 10, lobby=3 if " 3 s" in why else 5)
    assert time.monotonic() - began < 60  # each limit is seconds; without one it waits for the test's own


def test_a_host_has_the_whole_time_from_when_the_page_shows_that_one_must_admit(tab: Tab) -> None:
    lobby = "<p>Someone will let you in shortly</p>"
    began = time.monotonic()
    show(tab, f"<script>setTimeout(() => {{ document.body.innerHTML = {json.dumps(lobby)}; }}, 2000)</script>")
    with refusal(ServiceError, "not-admitted", " 1 s", ": Someone"):
        enter(tab, TEAMS_SITE, timeout=10, lobby=1)
    assert time.monotonic() - began >= 3


def test_plain_http_is_told(tab: Tab) -> None:
    show(tab, PAGE, url="http://meet.test/Room")
    with refusal(ServiceError, "insecure", "camera"):
        enter(tab, JITSI_SITE, timeout=5)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"service": "jitsi"}, ("conflict", "--service=jitsi ", "--live --url=https://meet.example.org/Room")),
        ({"service": "teams", "live": True}, ("missing", "--service=teams --live: ", "--url=https://tea")),
        (
            {"service": "jitsi", "live": True, "url": "meet.test/Room"},
            ("invalid-value", "--url=meet.test/Room: ", "jitsi"),
        ),
        (
            {"service": "jitsi", "live": True, "url": "https://meet.test/"},
            ("invalid-value", "--url=https://meet.test/: ", "jitsi"),
        ),
        (
            {"service": "meet", "live": True, "url": "https://teams.microsoft.com/l/x"},
            ("invalid-value", "--url=https://teams.microsoft.com/l/x: ", " meet "),
        ),
    ],
)
def test_options_that_do_not_fit_are_refused(
    given: dict[str, Any], why: tuple[Code, *tuple[str, ...]], lab_file: Path
) -> None:
    with refusal(ServiceError, *why):
        service(given, lab_file)


@pytest.mark.parametrize("server", ['ssh = "server"', ""])
def test_another_end_that_no_browser_can_be_driven_at_is_refused(server: str, lab_file: Path) -> None:
    lab_file.write_text(lab_file.read_text().replace('netns = "wan"', server))
    with refusal(ServiceError, "unsupported", f"--lab-file: {lab_file}: server: ", "netns", "ssh"):
        service({"service": "jitsi", "live": True, "url": "https://meet.test/Room"}, lab_file)


def test_options_make_each_live_call(lab_file: Path) -> None:
    for name, url in (("jitsi", "https://meet.test/Room"), ("teams", "https://teams.live.com/meet/9"),
                      ("meet", "https://meet.google.com/abc-defg-hij")):  # fmt: skip
        assert service({"service": name, "live": True, "url": url}, lab_file).name == name


@pytest.fixture
def lab_file(tmp_path: Path) -> Path:
    addresses = {"client": "10.0.0.1", "receiver": "10.0.0.3", "sender": "10.0.0.2"}
    hosts = "".join(f'[{name}]\naddress = "{address}"\n' for name, address in addresses.items())
    file = tmp_path / "lab.toml"
    file.write_text(
        f'[router]\nssh = "apu"\nlan = "a"\nwan = "b"\n{hosts}[server]\naddress = "10.0.0.2"\nnetns = "wan"\n'
    )
    return file


def service(given: dict[str, Any], lab_file: Path) -> Any:
    options = parse_options({"lab": "apu", "lab-file": str(lab_file), **given})
    return SERVICES[options.service].from_options(options)


def test_what_stands_behind_the_link_goes_before_what_we_ask_for() -> None:
    asked = Jitsi("https://meet.test/Room#config.p2p.enabled=true").address("Ann")
    assert asked.startswith("https://meet.test/Room?lang=en#") and "config.defaultLanguage=%22en%22" in asked
    assert asked.index("config.p2p.enabled=false") < asked.index("config.p2p.enabled=true")
    assert "userInfo.displayName=%22Ann%22" in asked
    assert Teams("https://teams.live.com/meet/9?p=x").address("").startswith("https://teams.live.com/meet/9?p=x&ms")


@pytest.fixture(params=first(1, ["playwright", "selenium"]))
def meeting(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Jitsi, Stage]]:
    """Two browsers, not started yet, and a room like Jitsi's; to be joined by a press, or without any."""
    display = Display.start(LOCAL, tmp_path / "xvfb.log")
    recorder, query = ("ffmpeg", "?stubborn") if request.param == "playwright" else (None, "")
    try:
        with jitsi_room() as url:
            call = Jitsi(f"{url}{query}", driver=request.param, recorder=recorder)
            call.prepare()
            try:
                yield call, Stage(LOCAL, LOCAL, "127.0.0.1", tmp_path, display.name)
            finally:
                call.stop()
    finally:
        display.stop()


def test_both_ends_meet_tell_statistics_each_second_and_say_why_it_is_over(meeting: tuple[Jitsi, Stage]) -> None:
    call, stage = meeting
    call.start(stage)
    began = time.time()
    enough = [end.frames + 90 for end in call._ends]
    while time.time() < began + 4 or any(end.frames < n for end, n in zip(call._ends, enough, strict=True)):
        assert call.failure is None and time.time() < began + 120
        time.sleep(0.1)
    now = time.time()
    facts = call.facts
    sample = call.sample()
    assert sample and sample.t > now - 10 and sample.playing and sample.totalFrames > 60
    assert facts["live"] and facts["call"]["client"]["remotePort"] == facts["call"]["far"]["port"] == call.port
    assert call._ends[1].browser.evaluate("() => document.fullscreenElement.id") == "largeVideo"
    call._ends[0].browser.evaluate("() => window.kick()")
    assert "the other end: is no longer in the meeting; the page says: Ann removed you" in await_failure(call, 60)
    assert call.keep_shown() == " (see logs/page-far.png, .html, logs/page-client.png, .html)"
    assert "Ann removed you" in (stage.run / "logs" / "page-far.html").read_text()
    call.stop()
    for folder in (stage.run, stage.run / FAR):
        check_statistics(folder, began, now, facts["call"]["client" if folder == stage.run else "far"])
    if call._recorder:
        check_recording(stage.run, facts, began, now)


def check_statistics(folder: Path, began: float, now: float, path: dict[str, Any]) -> None:
    lines = [json.loads(line) for line in (folder / "player.jsonl").open()]
    told = [line for line in lines if line.get("event") == "call" and began <= line["t"] <= now]
    # Each second; a page of a busy host skips some.
    assert (now - began) / 2 - 1 < len(told) < now - began + 2
    assert call_path([line["detail"]["path"] for line in told], path).ok
    first, last = told[0]["detail"], told[-1]["detail"]
    assert last["state"] == "connected" and last["inbound"]["frameHeight"] > 100
    assert last["inbound"]["framesDecoded"] - first["inbound"]["framesDecoded"] > 60
    assert {"freezeCount", "totalFreezesDuration", "jitterBufferDelay"} <= last["inbound"].keys()
    assert last["inbound"]["jitterBufferEmittedCount"] > first["inbound"]["jitterBufferEmittedCount"]
    assert last["outbound"]["qualityLimitationReason"] in ("none", "cpu", "bandwidth", "other")
    assert 0 <= last["pair"]["currentRoundTripTime"] < 10


def check_recording(run: Path, facts: dict[str, Any], began: float, now: float) -> None:
    """The other end's screen shows the client's camera, each frame later than it was captured."""
    start = json.loads((run / FAR / "screen.json").read_text())["start"]
    # By itself it might find the strip where it was before the picture filled the screen: a short while ago.
    recording = frames.read_recording(run / FAR / "screen.mp4", start, strip.Box.bottom(*Jitsi.far_size))
    inside = recording.filter(recording["t"].is_between(began + 1, now))
    assert (inside["frame"] >= 0).mean() > 0.95
    camera = glass_to_glass.camera_log(map(json.loads, (run / "player.jsonl").open()), facts["clip"]["frames"])
    assert set(camera["number"]) <= set(range(facts["clip"]["frames"]))
    delays = glass_to_glass.frame_delays(
        glass_to_glass.shown_frames(inside, camera, facts["clip"]["frames"], facts["clip"]["fps"])
    )
    assert 0 < delays["delay_ms"].median() < 2000  # type: ignore[operator]


@pytest.mark.parametrize("meeting", ["playwright"], indirect=True)
def test_an_end_that_dies_is_told(meeting: tuple[Jitsi, Stage]) -> None:
    call, stage = meeting
    call.start(stage)
    home = str(call._ends[0].browser._profile)
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if "--type=renderer" in line and any(home in word for word in line):
            process.kill()
    assert await_failure(call, 60).startswith("the other end: ")


def await_failure(call: TwoParty, seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if failure := call.failure:
            return failure
        time.sleep(0.2)
    pytest.fail(f"nothing is told after {seconds:g} s")


def test_an_address_that_nobody_answers_at_is_one_line(tmp_path: Path) -> None:
    """Nothing listens at port 9 (discard)."""
    display = Display.start(LOCAL, tmp_path / "xvfb.log")
    call = Jitsi("http://127.0.0.1:9/Room", recorder=None)
    try:
        with refusal(ServiceError, "unreachable", "--url=http://127.0.0.1:9/Room: ") as wrong:
            call.start(Stage(LOCAL, LOCAL, "127.0.0.1", tmp_path, display.name))
    finally:
        call.stop()
        display.stop()
    assert "\n" not in str(wrong.value)
