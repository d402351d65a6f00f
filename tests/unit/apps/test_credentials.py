# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn.apps.base import ServiceError
from sojourn.apps.credentials import read_credentials
from sojourn.hardware.machine.errors import Code
from tests.refusals import refusal

SECRET = "hunter2"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tv.toml"
    path.touch(0o600)
    path.write_text(f'user = "me@tv.test"\npassword = "{SECRET}"\n')
    return path


def test_account_from_a_private_file(file: Path) -> None:
    account = read_credentials("o2tv", file)
    assert account and (account.user, account.password, account.cookie) == ("me@tv.test", SECRET, "")
    assert SECRET not in repr(account) and SECRET not in str(account)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o602, 0o660])
def test_file_that_others_get_at_is_refused(file: Path, mode: int) -> None:
    file.chmod(mode)
    with refusal(ServiceError, "not-private", f"--credentials={file}: ", f" {mode:04o}", "chmod 600"):
        read_credentials("o2tv", file)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f'user = "me"\npassword = {SECRET}', ("unreadable-file", "TOML", "user")),
        (f'user = "me"\npasswort = "{SECRET}"', ("unknown-option", " passwort; ", ": user, password, cookie")),
        ('user = "me"', ("missing", "user and password", "cookie")),
        ('user = "me"\npassword = 5', ("invalid-value", "string")),
        ("", ("missing", "user and password", "cookie")),
        ('cookie = "a=b"\norigins = "http://tv.test"', ("invalid-value", "origins: 'http://tv.test'", "https://host")),
        (
            'cookie = "a=b"\norigins = "https://tv.test/login"',
            ("invalid-value", "origins: 'https://tv.test/login'", "https://host"),
        ),
    ],
)
def test_what_is_no_account_is_told_in_one_line_without_the_secret(
    file: Path, text: str, why: tuple[Code, *tuple[str, ...]]
) -> None:
    file.write_text(text)
    with refusal(ServiceError, *why) as wrong:
        read_credentials("o2tv", file)
    assert "\n" not in str(wrong.value) and SECRET not in str(wrong.value)
    assert wrong.value.__cause__ is None


def test_missing_file_is_told(tmp_path: Path) -> None:
    with refusal(ServiceError, "unreadable-file", "none.toml: No such file"):
        read_credentials("o2tv", tmp_path / "none.toml")


def test_account_from_the_environment_is_that_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_credentials("o2tv", None) is None
    monkeypatch.setenv("SOJOURN_O2TV_COOKIE", f"session={SECRET}")
    account = read_credentials("o2tv", None)
    assert account and account.cookie == f"session={SECRET}" and account.source == "SOJOURN_O2TV_*"
    assert read_credentials("sledovanitv", None) is None
    monkeypatch.setenv("SOJOURN_SLEDOVANITV_USER", "me")
    with refusal(ServiceError, "missing", "SOJOURN_SLEDOVANITV_*: ", "user and password"):
        read_credentials("sledovanitv", None)


STATE = {
    "cookies": [{"name": "session", "value": SECRET * 3, "domain": ".tv.test", "path": "/", "expires": -1,
                 "httpOnly": True, "secure": True, "sameSite": "Lax"}],
    "origins": [{"origin": "https://tv.test", "localStorage": [
        {"name": "user", "value": json.dumps({"mail": "me@tv.test", "id": "0123456789abc", "theme": "dark"})}]}],
}  # fmt: skip


@pytest.fixture
def state(file: Path) -> Path:
    path = file.with_name("state.json")
    path.touch(0o600)
    path.write_text(json.dumps(STATE))
    file.write_text('storage-state = "state.json"')
    return path


def test_a_storage_state_lies_beside_the_file_that_names_it(file: Path, state: Path) -> None:
    account = read_credentials("o2tv", file)
    assert account and account.state.cookies[0].httpOnly and account.state.origins[0].origin == "https://tv.test"
    assert SECRET not in repr(account)
    assert account.hidden(f"dark {SECRET * 3} of 0123456789abc") == "dark … of …"


def test_it_may_come_from_the_environment(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOJOURN_YOUTUBE_STORAGE_STATE", str(state))
    account = read_credentials("youtube", None, (("storage-state",), ("cookie",)))
    assert account and account.state.cookies[0].name == "session"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.chmod(0o644), ("not-private", "storage-state=", "state.json: ", "0644", "chmod 600")),
        (lambda path: path.write_text(SECRET), ("invalid-value", "state.json: ", "storage_state()")),
        (lambda path: path.write_text(json.dumps({"cookies": [{"name": SECRET}]})), ("invalid-value", "state.json: ")),
        (lambda path: path.unlink(), ("unreadable-file", "state.json: No such file")),
        (lambda path: path.write_bytes(b"x" * (9 << 20)), ("too-large", "state.json: ")),
    ],
)
def test_a_bad_storage_state_is_told_without_what_is_in_it(
    file: Path, state: Path, change: Callable[[Path], object], why: tuple[Code, *tuple[str, ...]]
) -> None:
    change(state)
    with refusal(ServiceError, *why) as wrong:
        read_credentials("o2tv", file)
    assert "\n" not in str(wrong.value) and SECRET not in str(wrong.value)


def test_what_a_service_has_no_use_for_is_no_account(file: Path) -> None:
    with refusal(ServiceError, "missing", f"--credentials={file}: ", "storage-state", "cookie"):
        read_credentials("youtube", file, (("storage-state",), ("cookie",)))
