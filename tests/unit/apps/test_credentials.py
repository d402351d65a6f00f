# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from apps.base import ServiceError
from apps.credentials import read_credentials

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
    with pytest.raises(ServiceError, match=rf"^--credentials={file}: mode {mode:04o} .*chmod 600"):
        read_credentials("o2tv", file)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (f'user = "me"\npassword = {SECRET}', "is no TOML; write user"),
        (f'user = "me"\npasswort = "{SECRET}"', "unknown passwort; known: user, password, cookie"),
        ('user = "me"', "give user and password, or cookie"),
        ('user = "me"\npassword = 5', "each value must be a text"),
        ("", "give user and password, or cookie"),
        ('cookie = "a=b"\norigins = "http://tv.test"', "origins: 'http://tv.test': must be https://host"),
        ('cookie = "a=b"\norigins = "https://tv.test/login"', "origins: 'https://tv.test/login': must be https://host"),
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
