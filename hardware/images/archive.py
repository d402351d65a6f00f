# SPDX-License-Identifier: Apache-2.0
"""Newer Debian suites through a private apt, separate from the machine's and without root."""

from __future__ import annotations

import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

from sojourn.hardware.build_tool import call, ended, started
from sojourn.hardware.machine.cache import BuildError, locked, remove_tree
from sojourn.hardware.machine.scratch import scratch_folder

SUITE = "forky"
"""The suite of guests and of the board's image."""
SUITES = (SUITE, "sid")
_LOG = logging.getLogger("sojourn.archive")
#: Active Debian suites change several times a day, stable ones every two months.
_OLD = timedelta(days=90)
#: Package lists of this process that are younger are not read again, s.
_FRESH_S = 3600
KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
)


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """The paragraphs of `Key: value` lines that `apt-get indextargets` prints."""
    for paragraph in re.split(r"\n\s*\n", text):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line)
        if fields:
            yield fields


def mirrors(indextargets: str) -> list[str]:
    """Return the URIs of Debian's main archive in the machine's package sources, the most likely first.

    Security, update and backport suites live elsewhere on some mirrors, and third parties use Debian's suite
    names, so a known foreign origin is skipped, and a path that ends in /debian comes first.
    """
    addresses = []
    for target in stanzas(indextargets):
        uri, suite = target.get("Repo-URI", ""), target.get("Release", "")
        if (
            target.get("Created-By") == "Packages"
            and target.get("Component") == "main"
            and target.get("Origin", "Debian") in ("Debian", "")
            and not re.search(r"security|updates|backports|proposed", suite)
            and uri not in addresses
        ):
            addresses.append(uri)
    return sorted(addresses, key=lambda uri: not uri.rstrip("/").endswith("/debian"))


def source_lines(mirror: str, keyring: Path, suites: tuple[str, ...]) -> str:
    """One-line package sources for the main component of the suites, signed by `keyring`."""
    return "".join(f"deb [signed-by={keyring}] {mirror} {suite} main\n" for suite in suites)


class Archive:
    """A private apt in `folder`, configured for newer suites on the machine's mirror."""

    def __init__(self, folder: Path, suites: tuple[str, ...] = SUITES) -> None:
        self.folder = folder
        self.suites = suites
        self.sources = folder / "sources.list"

    def locked(self) -> AbstractContextManager[None]:
        """Lock the folder for one user at a time; apt's own locks fail at once, this one waits."""
        return locked(self.folder.with_name(f"{self.folder.name}.lock"))

    def options(self) -> list[str]:
        """Options that keep apt inside the folder; the suites' Release files may have expired, see `update`."""
        settings = {
            "Dir::State": self.folder / "state",
            "Dir::State::status": "/dev/null",
            "Dir::Cache": self.folder / "cache",
            "Dir::Etc::SourceList": self.sources,
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::Etc::PreferencesParts": "/dev/null",
            "Acquire::Check-Valid-Until": "false",
            "Acquire::Languages": "none",
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
            "APT::Sandbox::User": "",
        }
        return [part for key, value in settings.items() for part in ("-o", f"{key}={value}")]

    def update(self) -> None:
        """Read the package lists from the first mirror and keyring that verify.

        Raises:
            BuildError: no Debian mirror is configured, or none has a valid signature.
        """
        remove_tree(self.folder / "tmp")  # including leftovers of a killed apt
        for name in ("state/lists/partial", "cache/archives/partial", "tmp"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        uris = mirrors(call(["apt-get", "indextargets", "--no-release-info"], env=self._environment()))
        if not uris:
            raise BuildError("no Debian mirror is configured; add one to /etc/apt/sources.list")
        error = ""
        for keyring in self._keyrings():
            for uri in uris:
                self.sources.write_text(source_lines(uri, keyring, self.suites))
                done = ended(["apt-get", *self.options(), "-q", "--error-on=any", "update"], env=self._environment())
                if done.returncode == 0:
                    self._log_age()
                    return
                error = next((line for line in done.stderr.splitlines() if line[:2] in ("E:", "W:")), done.stderr)
        raise BuildError(f"cannot read {' and '.join(self.suites)} from {', '.join(uris)}: {error.strip()}")

    def dates(self, field: str = "Date") -> dict[str, datetime]:
        """Return when every suite last changed, from its signed Release file, or another date `field` of that file.

        Suites without that field are omitted.
        """
        values = {}
        for file in self.lists.glob("*Release"):
            named = (line for line in file.read_text().splitlines() if re.match(r"[A-Z][\w-]+: ", line))
            fields = dict(line.split(": ", 1) for line in named)
            if field in fields:
                values[fields.get("Codename", file.name)] = parsedate_to_datetime(fields[field])
        return values

    def _log_age(self) -> None:
        """Warn of suites whose archive has expired or is no longer updated.

        They are used all the same: snapshots and stale mirrors have expired too, and must build. Such suites have no
        recent fixes, and an attacker between this machine and the mirror may replay them.
        """
        now, ends = datetime.now(UTC), self.dates("Valid-Until")
        for suite, date in self.dates().items():
            past = suite in ends and ends[suite] < now
            if past or now - date > _OLD:
                until = f", valid until {ends[suite].date()}" if past else ""
                text = "the archive of %s is of %s%s, %d days old: the mirror is stale, or an old archive is replayed"
                _LOG.warning(text, suite, date.date(), until, (now - date).days)

    def _keyrings(self) -> Iterator[Path]:
        """Yield keyrings to verify with: the machine's, then the newest in the machine's archive."""
        yield from (path for path in KEYRINGS if path.is_file())
        folder = self.folder / "keyring"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            call(
                ["apt-get", "-o", "APT::Sandbox::User=", "-q", "download", "debian-archive-keyring"],
                cwd=folder, env=self._environment(),
            )  # fmt: skip
        except BuildError:
            return  # the mirrors' error says more than this one
        for package in folder.glob("*.deb"):
            call(["dpkg-deb", "-x", str(package), str(folder)])
            yield from (keyring for path in KEYRINGS if (keyring := folder / path.relative_to("/")).is_file())

    def names(self, pattern: str) -> list[str]:
        """Return the names of packages that match a regular expression."""
        out = call(["apt-cache", *self.options(), "search", "--names-only", pattern], env=self._environment())
        return [line.split(" ", 1)[0] for line in out.splitlines()]

    def version(self, package: str) -> str:
        """Return the newest version of a package in the suites."""
        out = call(["apt-cache", *self.options(), "show", "--no-all-versions", package], env=self._environment())
        return next(fields["Version"] for fields in stanzas(out))

    def download(self, package: str, folder: Path, progress: Callable[[float], None]) -> Path:
        """Fetch a package file into `folder`; `progress` receives the fraction done. apt verifies the file."""
        folder.mkdir(parents=True, exist_ok=True)
        command = ["apt-get", *self.options(), "-q", "-o", "APT::Status-Fd=1", "download", package]
        with started(command, cwd=folder, env=self._environment()) as apt:
            assert apt.stdout is not None and apt.stderr is not None
            for line in apt.stdout:
                if match := re.match(r"dlstatus:\d+:([\d.]+):", line):
                    progress(float(match[1]) / 100)
            error = apt.stderr.read()
        if apt.returncode:
            raise BuildError(f"cannot download {package}: {error.strip().splitlines()[-1] if error else 'apt failed'}")
        return next(folder.glob(f"{package}_*.deb"))

    @property
    def lists(self) -> Path:
        """The folder of the package lists."""
        return self.folder / "state/lists"

    def _environment(self) -> dict[str, str]:
        temporary = self.folder / "tmp"
        return {**os.environ, "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "TMPDIR": str(temporary)}


_lists = dict[tuple[str, ...], tuple[float, Archive]]()
_reading = threading.Lock()


def current(suites: tuple[str, ...] = SUITES) -> Archive:
    """Return an archive with current package lists, which all builds of this process share; they end with it.

    Raises BuildError as `Archive.update`.
    """
    with _reading:
        read, archive = _lists.get(suites, (0.0, None))
        if archive is None or time.monotonic() - read > _FRESH_S:
            archive = Archive(scratch_folder("-apt"), suites)
            archive.update()
            _lists[suites] = time.monotonic(), archive
        return archive
