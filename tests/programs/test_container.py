# SPDX-License-Identifier: Apache-2.0
"""The container's recipe against what it names; nothing is built."""

from __future__ import annotations

import json
import re
import subprocess

from typer.testing import CliRunner

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.cli import app

RECIPE = (CHECKOUT / "Containerfile").read_text()
STEPS = re.sub(r"\\\n", " ", re.sub(r"(?m)^#.*\n", "", RECIPE)).splitlines()


def steps(name: str) -> list[str]:
    """What stands behind each of these words."""
    return [words[1] for line in STEPS if (words := line.split(maxsplit=1)) and words[0] == name]


def test_it_starts_from_debian_and_names_no_registry() -> None:
    assert [re.fullmatch(r"debian:[\w-]+", image) is not None for image in steps("FROM")] == [True]


def test_what_is_copied_is_there() -> None:
    for copied in steps("COPY"):
        *sources, _target = (word for word in copied.split() if not word.startswith("--"))
        assert sources and all((CHECKOUT / source).exists() for source in sources), copied


def test_its_packages_are_those_of_simulated_time() -> None:
    (install,) = (step for step in steps("RUN") if "apt-get install" in step)
    chosen = re.search(r"\$\((sed .* )/tmp/packages\.txt\)", install)
    assert chosen
    command = f"{chosen[1]} {CHECKOUT}/harness/packages.txt"
    packages = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True).stdout.split()
    assert {"ffmpeg", "gcc", "mmdebstrap", "util-linux"} <= set(packages)
    assert not {"caddy", "chromium", "passt", "xvfb"} & set(packages)
    assert f"{chosen[1].split(' -e ')[1]}" in (CHECKOUT / "harness/setup.sh").read_text()


def test_what_it_runs_is_there() -> None:
    assert any(step.endswith("sojourn.harness.cli build") for step in steps("RUN"))
    assert CliRunner().invoke(app, ["build", "--help"]).exit_code == 0
    assert "sh harness/setup.sh simulated" in steps("RUN")
    (entry,) = map(json.loads, steps("ENTRYPOINT"))
    inside = entry[-1].removeprefix(steps("WORKDIR")[0] + "/")
    assert entry[0] == "sh" and subprocess.run(["sh", "-n", str(CHECKOUT / inside)], check=False).returncode == 0
    assert "--results" in CliRunner().invoke(app, ["harm", "--help"]).output


def test_all_that_runs_is_copied_and_nothing_else() -> None:
    """Neither results nor history: a checkout has both."""
    copied = {word.rstrip("/") for line in steps("COPY") for word in line.split()[1:-1]}
    packages = {path.parent.name for path in CHECKOUT.glob("*/__init__.py")}
    assert (
        packages | {"tests", "conftest.py", "harness/api", ".ci/import"} <= copied
        and not {".", ".git", "results"} & copied
    )
