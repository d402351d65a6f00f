# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from sojourn.hardware.images import archive
from sojourn.hardware.images.archive import Archive, mirrors, source_lines
from sojourn.hardware.machine.cache import BuildError


def target(uri: str, suite: str, **fields: str) -> str:
    """A paragraph as apt 2.6 prints it, with the fields that matter and one that does not."""
    known = {
        "MetaKey": "main/binary-amd64/Packages",
        "Repo-URI": uri,
        "Release": suite,
        "Component": "main",
        "Created-By": "Packages",
        "Fallback-Of": "",
        **fields,
    }
    return "".join(f"{key}: {value}\n" for key, value in known.items()) + "\n"


MAIN, SECURITY, VENDOR = "http://mirror/debian/", "http://mirror/debian-security/", "https://vendor/node_20.x/"


def test_the_main_archive_is_found_once() -> None:
    text = (
        target(SECURITY, "bookworm-security", Origin="Debian")
        + target(MAIN, "bookworm", Origin="Debian")
        + target(MAIN, "bookworm", Origin="Debian", **{"Created-By": "DEP-11"})
        + target("http://other/debian", "bookworm-updates", Origin="Debian")
        + target(MAIN, "trixie", Origin="Debian")
    )
    assert mirrors(text) == [MAIN]


def test_third_parties_are_left_out_or_come_last() -> None:
    assert mirrors(target(VENDOR, "bookworm", Origin=". nodistro")) == []
    # Before the first `apt-get update` no origin is known.
    assert mirrors(target(VENDOR, "bookworm") + target(MAIN, "bookworm")) == [MAIN, VENDOR]
    assert mirrors(target(MAIN, "bookworm", Component="contrib")) == []
    assert mirrors("") == []


def test_source_lines_are_signed() -> None:
    assert source_lines(MAIN, Path("/keys/debian.gpg"), ("forky", "sid")) == (
        "deb [signed-by=/keys/debian.gpg] http://mirror/debian/ forky main\n"
        "deb [signed-by=/keys/debian.gpg] http://mirror/debian/ sid main\n"
    )


def test_an_archive_that_stands_still_is_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    private = Archive(tmp_path)
    (lists := tmp_path / "state" / "lists").mkdir(parents=True)
    now = datetime.now(UTC)
    for suite, age, valid in (("forky", 400, None), ("sid", 1, 7), ("trixie", 20, 7)):
        date = format_datetime(now - timedelta(days=age), usegmt=False)
        end = valid and f"Valid-Until: {format_datetime(now - timedelta(days=age - valid), usegmt=False)}\n"
        signed = "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\nOrigin: Debian\n"
        (lists / f"mirror_dists_{suite}_InRelease").write_text(
            f"{signed}Codename: {suite}\nDate: {date}\n{end or ''}SHA256:\n ab 1 x\n"
        )
    assert {suite: (now - date).days for suite, date in private.dates().items()} == {
        "forky": 400, "sid": 1, "trixie": 20,
    }  # fmt: skip
    private._log_age()
    old, past = sorted(caplog.messages)
    assert old.startswith("the archive of forky is of ") and "400 days old" in old and "until" not in old
    assert (
        past.startswith("the archive of trixie is of ")
        and ", valid until " in past
        and "20 days old: the mirror is stale" in past
    )


def test_the_builds_of_a_process_read_the_lists_once_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[tuple[str, ...]]()
    now = 5.0
    monkeypatch.setattr(archive, "_lists", {})
    monkeypatch.setattr(Archive, "update", lambda self: read.append(self.suites))
    monkeypatch.setattr(archive.time, "monotonic", lambda: now)
    first = archive.current(("forky",))
    assert archive.current(("forky",)) is first and archive.current(("forky", "sid")) is not first
    now += 3601
    assert archive.current(("forky",)) is not first
    assert read == [("forky",), ("forky", "sid"), ("forky",)]


def test_lists_that_could_not_be_read_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Archive) -> None:
        raise BuildError("no mirror")

    monkeypatch.setattr(archive, "_lists", {})
    monkeypatch.setattr(Archive, "update", fail)
    with pytest.raises(BuildError):
        archive.current()
    monkeypatch.setattr(Archive, "update", lambda self: None)
    assert archive.current().suites == archive.SUITES
