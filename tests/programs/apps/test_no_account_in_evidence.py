# SPDX-License-Identifier: Apache-2.0
"""A live run with an account: nothing of that is in its evidence, however the login ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from sojourn.apps.base import ServiceError, Stage
from sojourn.apps.credentials import Credentials
from sojourn.apps.o2tv import O2tv
from sojourn.captures.host import HostWatch
from sojourn.hardware.machine.command_log import command_log
from sojourn.hardware.machine.display import Display
from sojourn.hardware.machine.files import log_file
from sojourn.hardware.machine.place import LOCAL
from sojourn.harness.options.rules import parse_options
from sojourn.harness.store.runs import RunStore
from tests.programs.apps.test_iptv import ACCOUNT, Television, site  # noqa: F401

USER, PASSWORD = ACCOUNT["user"][0], ACCOUNT["password"][0]
COOKIE = "s3ss10n-0f-mine"
ECHOED = '<p role="alert">{} is unknown, or {} is no password</p>'


class Trusting(O2tv):
    """The service in a browser that trusts the test's own site."""

    spki = ""

    def address(self) -> tuple[str, tuple[str, ...]]:
        url, further = super().address()
        return url, (*further, f"--ignore-certificate-errors-spki-list={self.spki}")


def account_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "tv.toml"
    path.touch(0o600)
    path.write_text(text)
    return path


@pytest.fixture
def screen(tmp_path: Path) -> Iterator[str]:
    display = Display.start(LOCAL, tmp_path / "xvfb.log")
    yield display.name
    display.stop()


def record(tmp_path: Path, screen: str, spki: str, given: Mapping[str, Any], ends: str) -> Path:
    """Log in and watch for a moment as a run does, and return its folder; `ends`: why it cannot."""
    options = parse_options(given)
    service = Trusting.from_options(options)
    service.spki = spki
    command_line = ["pytest", *(f"--{name}={value}" for name, value in given.items())]
    run = RunStore(tmp_path / "results").create("video_harm", options.cell, command_line=command_line)
    failure = ""
    with command_log(run.path / "setup.log"):
        (run.path / "options.json").write_text(json.dumps(options.record()))
        host = HostWatch.start(run.path)
        try:
            with run:
                log_file(run.path, "xvfb").write_bytes((tmp_path / "xvfb.log").read_bytes())
                service.start(Stage(LOCAL, LOCAL, "127.0.0.1", run.path, screen))
                run.add_versions(service.versions)
                run.commit()
        except ServiceError as error:
            failure = str(error)
        finally:
            service.stop()
            host.stop()
    assert ends in failure and bool(ends) == bool(failure), failure
    return run.path


@pytest.mark.parametrize(
    ("kind", "ends"),
    [("file", ""), ("environment", "the login was refused"), ("environment", "the session of")],
)
def test_no_account_is_in_a_run(
    tmp_path: Path,
    screen: str,
    site: tuple[type[Television], str],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    ends: str,
) -> None:
    handler, url = site
    monkeypatch.setattr("tests.programs.apps.test_iptv.REFUSED", ECHOED.format(USER, "wrong-" + PASSWORD))
    account = {"user": USER, "password": PASSWORD if not ends else "wrong-" + PASSWORD}
    if ends == "the session of":
        account = {"cookie": f"session={COOKIE}"}
    given: dict[str, Any] = {"service": "o2tv", "lab": "apu", "live": True, "url": f"{url}/channel"}
    if kind == "file":
        given["credentials"] = account_file(tmp_path, "".join(f'{key} = "{value}"\n' for key, value in account.items()))
    else:
        for key, value in account.items():
            monkeypatch.setenv(f"SOJOURN_O2TV_{key.upper()}", value)
    run = record(tmp_path, screen, handler.spki, given, ends)
    written = [path for path in run.rglob("*") if path.is_file()]
    assert {"manifest.json", "options.json", "setup.log", "host.jsonl", "player.jsonl"} <= {p.name for p in written}
    for path in written:
        content = path.read_bytes()
        assert [word for word in (USER, PASSWORD, COOKIE) if word.encode() in content] == [], path
    assert len(handler.posted) == (0 if "cookie" in account else 1)


def test_no_program_is_given_an_account() -> None:
    asked = "from sojourn.hardware.machine.place import LOCAL; print(LOCAL.run(['env']))"
    environment = {**os.environ, "SOJOURN_O2TV_PASSWORD": PASSWORD, "SOJOURN_IPTV_COOKIE": COOKIE, "SOJOURN_SEED": "7"}
    done = subprocess.run([sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True)
    assert "SOJOURN_SEED=7" in done.stdout
    assert PASSWORD not in done.stdout and COOKIE not in done.stdout


def test_what_a_page_answers_is_told_without_the_account() -> None:
    account = Credentials("tv.toml", user=USER, password=PASSWORD, cookie=f"theme=x; session={COOKIE}")
    said = account.hidden(f"{USER} with {PASSWORD} and {COOKIE} of session={COOKIE}: x")
    assert said == "… with … and … of session=…: x"
    assert USER not in repr(account)
