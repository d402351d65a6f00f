# SPDX-License-Identifier: Apache-2.0
"""`sojourn profile --live` against the stand-in's own page: it records what the origin sends, and nothing private."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from sojourn.apps.base import Stage
from sojourn.apps.browsers.browser import flags
from sojourn.apps.standins.clip import ensure_clip
from sojourn.apps.standins.har import read_har
from sojourn.apps.standins.ladder import DEFAULT
from sojourn.apps.standins.origin import HOST, ensure_player
from sojourn.apps.standins.profile.from_capture import read_capture
from sojourn.apps.standins.profile.from_har import profile_of
from sojourn.apps.standins.profile.live import record, without_tokens
from sojourn.apps.standins.profile.recorded import ServiceProfileError, read_profile
from sojourn.apps.youtube import YouTube
from sojourn.hardware.machine.place import LOCAL
from sojourn.hardware.machine.process import Process
from sojourn.hardware.machine.viewer import viewer_folder
from sojourn.harness.cli import app
from tests.har_of_run import segments
from tests.programs.apps.fetch import serving
from tests.refusals import refusal

RUNGS = DEFAULT[:2]


@dataclass(frozen=True)
class Recording:
    """What was recorded of a page: its HAR, and as root the packets with their keys; the run has the origin's log."""

    har: Path
    run: Path
    capture: Path
    keys: Path


@contextmanager
def capturing(port: int, file: Path) -> Iterator[None]:
    """Write the packets of a port of this machine to a file; none without root."""
    if os.geteuid() != 0:
        yield
        return
    command = ["dumpcap", "-q", "-i", "lo", "-f", f"tcp port {port}", "-w", str(file)]
    with Process.start(LOCAL, command, ready="^File: "):
        yield
        time.sleep(1)  # the kernel hands packets over in blocks


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """The stand-in's page, recorded for 12 s; the browser writes its keys as the viewer."""
    folder = tmp_path_factory.mktemp("recording")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOJOURN_CACHE", str(folder / "film"))
        clip = ensure_clip(seconds=4, ladder=RUNGS, film_seconds=200)
    service = YouTube(player="dash-dynamic", rungs=RUNGS, buffer=6)
    service.take({"clip": vars(clip)})
    (run := folder / "run").mkdir()
    site, path = service.site(Stage(LOCAL, LOCAL, "127.0.0.1", run, ""), clip)
    made = Recording(folder / "service.har", run, folder / "service.pcapng", viewer_folder("-keys") / "keys.log")

    def with_keys(**known: Any) -> list[str]:
        return [*flags(**known), f"--ssl-key-log-file={made.keys}"]

    with serving(site, run, folder / "cache", ensure_player()) as origin, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sojourn.apps.standins.profile.live.flags", with_keys)
        trusted = {"hosts": {HOST: "127.0.0.1"}, "spki": origin.certificate.spki}
        with capturing(origin.port, made.capture):
            record(f"{origin.url}{path}&token=averysecretvalue", made.har, 12, trusted=trusted)
    return made


def test_a_recorded_page_becomes_a_profile(recording: Recording, tmp_path: Path) -> None:
    """The HAR that is written has the sizes of all segments that the origin has sent, and the manifest."""
    har, run = recording.har, recording.run
    said = har.read_text()
    assert "averysecretvalue" not in said and "ookie" not in said
    profile = profile_of(read_har(har))
    assert [(it.height, it.bandwidth) for it in profile.rendition] == [(rung.height, rung.bps) for rung in RUNGS]
    assert (profile.service, profile.segment_s, profile.buffer_s) == (HOST, 2.0, 6.0)
    sent: dict[str, set[int]] = {}
    for path, size in segments(run):
        sent.setdefault(path, set()).add(size)
    # A busy host's player gives a segment up and takes it again, and the last ones may be under way at the end.
    taken = [entry for entry in json.loads(said)["log"]["entries"]
             if entry["request"]["url"].endswith(".m4s") and "_failureText" not in entry["response"]]  # fmt: skip
    seen = [(entry["request"]["url"].partition(HOST)[2].partition("/")[2], entry["response"]["content"]["size"])
            for entry in sorted(taken, key=lambda entry: entry["startedDateTime"])[:-2]]  # fmt: skip
    assert len(seen) >= 4
    other = [(path, size, sent[f"/{path}"]) for path, size in seen if size not in sent[f"/{path}"]]
    assert not other
    done = CliRunner().invoke(app, ["profile", str(har), "-o", str(tmp_path / "service.toml")])
    assert done.exit_code == 0, done.output
    assert read_profile(tmp_path / "service.toml") == profile


@pytest.mark.skipif(os.geteuid() != 0, reason="only root captures packets here")
def test_a_capture_of_the_page_has_the_sizes_of_its_har(recording: Recording, tmp_path: Path) -> None:
    """The end of a recording may have answers that only one of both has seen."""
    by_har = profile_of(read_har(recording.har))
    by_capture = profile_of(read_capture(recording.capture, recording.keys))
    shown = ("service", "segment_s", "buffer_s")
    assert [getattr(by_capture, name) for name in shown] == [getattr(by_har, name) for name in shown]
    for here, there in zip(by_capture.rendition, by_har.rendition, strict=True):
        both = min(len(here.sizes), len(there.sizes)) - 1
        assert (here.height, here.bandwidth) == (there.height, there.bandwidth)
        assert both >= 4 and here.sizes[:both] == there.sizes[:both]
    assert by_capture.visible.rtt_ms and by_capture.visible.ecn == "not-ect"


def test_tokens_in_addresses_become_digests_that_are_the_same_in_a_manifest() -> None:
    address = "https://a.test/x.m4s?itag=137&range=0-999&sig=AbCdEfGhIjKlMnOpQ%3D&ip=203.0.113.7"
    short = without_tokens(address)
    assert "itag=137&range=0-999&sig=x" in short and "AbCd" not in short
    assert short in without_tokens(f"<BaseURL>{address}</BaseURL>")
    assert "203.0.113.7" not in short


def test_the_viewers_name_password_and_session_stay_out() -> None:
    short = without_tokens("https://u:s3cret@a.test/720p/x.m4s?sid=ab12cd34ef56&q=1080p&rate=2500000")
    assert short.startswith("https://a.test/720p/x.m4s?sid=x") and "ab12" not in short
    assert short.endswith("&q=1080p&rate=2500000")


@pytest.mark.parametrize("url", ["file:///etc/passwd", "tv.example", "https://"])
def test_only_web_addresses_are_recorded(tmp_path: Path, url: str) -> None:
    with refusal(ServiceProfileError, "invalid-value", "--live"):
        record(url, tmp_path / "a.har", 10)
