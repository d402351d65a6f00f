# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn.apps.base import ServiceError
from sojourn.apps.credentials import read_credentials

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
    with pytest.raises(
        ServiceError, match=rf"^--credentials={file}: others can read it .mode {mode:04o}.; run chmod 600"
    ):
        read_credentials("o2tv", file)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'user = "me"\npassword = {SECRET}', "not valid TOML; write user"),
        (f'user = "me"\npasswort = "{SECRET}"', "unknown passwort; known: user, password, cookie"),
        ('user = "me"', "give user and password, or cookie"),
        ('user = "me"\npassword = 5', "every value must be a string"),
        ("", "give user and password, or cookie"),
        ('cookie = "a=b"\norigins = "http://tv.test"', "origins: 'http://tv.test'is not an origin; give https://host"),
        (
            'cookie = "a=b"\norigins = "https://tv.test/login"',
            "origins: 'https://tv.test/login'is not an origin; give https://host",
        ),
    ],
)
def test_what_is_no_account_is_told_in_one_line_without_the_secret(file: Path, text: str, says: str) -> None:
    file.write_text(text)
    with pytest.raises(ServiceError, match=says) as wrong:
        read_credentials("o2tv", file)
    assert "\n" not in str(wrong.value) and SECRET not in str(wrong.value)
    assert wrong.value.__cause__ is None


def test_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="No such file"):
        read_credentials("o2tv", tmp_path / "none.toml")


def test_account_from_the_environment_is_that_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_credentials("o2tv", None) is None
    monkeypatch.setenv("SOJOURN_O2TV_COOKIE", f"session={SECRET}")
    account = read_credentials("o2tv", None)
    assert account and account.cookie == f"session={SECRET}" and account.source == "SOJOURN_O2TV_*"
    assert read_credentials("sledovanitv", None) is None
    monkeypatch.setenv("SOJOURN_SLEDOVANITV_USER", "me")
    with pytest.raises(ServiceError, match=r"SOJOURN_SLEDOVANITV_\*: give user and password"):
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
    ("change", "says"),
    [
        (lambda path: path.chmod(0o644), "storage-state=.*state.json: others can read it .mode 0644.; run chmod 600"),
        (lambda path: path.write_text(SECRET), "not a storage state; create one with"),
        (lambda path: path.write_text(json.dumps({"cookies": [{"name": SECRET}]})), "not a storage state"),
        (lambda path: path.unlink(), "No such file"),
        (lambda path: path.write_bytes(b"x" * (9 << 20)), "larger than"),
    ],
)
def test_a_bad_storage_state_is_told_without_what_is_in_it(
    file: Path, state: Path, change: Callable[[Path], object], says: str
) -> None:
    change(state)
    with pytest.raises(ServiceError, match=says) as wrong:
        read_credentials("o2tv", file)
    assert "\n" not in str(wrong.value) and SECRET not in str(wrong.value)


def test_what_a_service_has_no_use_for_is_no_account(file: Path) -> None:
    with pytest.raises(ServiceError, match=r"^--credentials=.*: give storage-state, or cookie$"):
        read_credentials("youtube", file, (("storage-state",), ("cookie",)))
