# SPDX-License-Identifier: Apache-2.0
"""Rules that hold for every file of the repository."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOP = {
    *(
        "harness",
        "apps",
        "traffic",
        "bottleneck",
        "captures",
        "scoring",
        "tests",
        "hardware",
        "docs",
        "benchmarks",
    ),
    *(
        "conftest.py",
        "Containerfile",
        "Makefile",
        "pyproject.toml",
        "requirements.txt",
        "README.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "LICENSE",
        ".ci",
        ".gitignore",
    ),
}
# Hosts are put together here, so that this file does not hold them either.
_REGISTRIES = "|".join(
    rf"\b{host}\b"
    for host in (
        r"py" + r"pi\.(org|io)",
        r"python" + r"hosted\.org",
        r"npm" + r"js\.(org|com)",
        r"(deb|security|ftp\w*|snapshot)\." + r"debian\.org",
        r"cdn\.js" + r"delivr\.net",
        r"un" + r"pkg\.com",
        r"crates\." + r"io",
    )
)
REGISTRY_HOST = re.compile(_REGISTRIES, re.IGNORECASE)


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    done = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("no git checkout")
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def test_the_pattern_finds_a_host() -> None:
    assert REGISTRY_HOST.search("https://" + "registry." + "npm" + "js.org/dashjs")
    assert not REGISTRY_HOST.search("numpy and npm and debian")


def test_no_file_names_the_host_of_a_package_registry(tracked: list[Path]) -> None:
    named = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in tracked
        if (found := REGISTRY_HOST.search(path.read_text(errors="replace")))
    ]
    assert named == []


def test_the_top_level_is_the_agreed_one(tracked: list[Path]) -> None:
    assert {path.relative_to(ROOT).parts[0] for path in tracked} - TOP == set()


def test_every_source_file_names_its_licence(tracked: list[Path]) -> None:
    without = [
        str(path.relative_to(ROOT))
        for path in tracked
        if path.suffix in (".py", ".sh", ".c", ".js", ".css")
        and path.stat().st_size
        and "SPDX-License-Identifier:" not in path.read_text()[:200]
    ]
    assert without == []


def test_every_dependency_has_a_range_and_is_locked_with_hashes() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [d for extra in project["optional-dependencies"].values() for d in extra]
    # A range, or the exact version of a tool of development.
    names = {re.split(r"[\[>=]", dependency)[0].lower() for dependency in wanted}
    assert all(re.fullmatch(r"[\w.-]+(\[[\w-]+\])?(>=|==)[\w.]+(,<[\w.]+)?", dependency) for dependency in wanted)
    lock = (ROOT / "requirements.txt").read_text()
    entries = re.split(r"\n(?=[a-z])", lock)
    assert all("--hash=sha256:" in entry for entry in entries)
    pinned = {re.split(r"[\[=]", entry)[0] for entry in entries if re.match(r"[\w.-]+(\[[\w-]+\])?==[\w.]+ ", entry)}
    assert names <= pinned
    exact = {re.sub(r"\[.*\]", "", dependency.lower()) for dependency in wanted if "==" in dependency}
    assert exact <= {entry.split()[0] for entry in entries}


def test_make_harm_is_sojourn_harm() -> None:
    """Without pytest's preamble; and the manifest shows a command that can be typed."""
    command = ["make", "--dry-run", "--no-print-directory", "harm", "SERVICE=call", "ARGS=--qdisc=dualpi2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    last = done.stdout.splitlines()[-1]
    assert last.endswith("python -m sojourn.harness.cli harm --service=call --qdisc=dualpi2"), done.stdout
