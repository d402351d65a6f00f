# SPDX-License-Identifier: Apache-2.0
"""Sojourn as a wheel in a project of somebody's own, with his service, queue, contender and gate from a package."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.store.loaded import load_victim_run, valid
from sojourn.harness.store.manifest import read_manifest

pytestmark = pytest.mark.lab

EXAMPLE = CHECKOUT / "docs" / "examples" / "sojourn-example"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages: the wheels of Sojourn and of the example, as pip unpacks them."""
    wheels, target = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("packages")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--no-cache-dir"]
    for project in (CHECKOUT, EXAMPLE):
        built = [*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(project)]
        subprocess.run(built, check=True, capture_output=True, text=True)
    install = [*pip, "install", "--no-deps", "--no-index", "--target", str(target), *map(str, wheels.glob("*.whl"))]
    subprocess.run(install, check=True, capture_output=True, text=True)
    return target


def called(installed: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=1200
    )


def test_its_commands_know_what_the_package_brings(installed: Path, tmp_path: Path) -> None:
    names = {
        one["name"] for one in json.loads(called(installed, tmp_path, "sojourn.harness.cli", "matrix", "--json").stdout)
    }
    assert {"s1", "s6"} <= names
    told = called(installed, tmp_path, "sojourn.harness.cli", "harm", "--service=newz")
    assert "known: " in told.stdout + told.stderr and "did you mean news?" in told.stdout + told.stderr
    told = called(installed, tmp_path, "sojourn.harness.cli", "harm", "--help")
    assert "lp-noecn" in told.stdout and "prio" in told.stdout


@pytest.mark.nightly
def test_an_experiment_of_ones_own_is_valid_evidence(installed: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE / "tests", project := tmp_path / "project")
    asked = ["--service=news", "--timeline=solo:6,lp-noecn:8", "--results=results"]
    done = called(installed, project, "pytest", "test_mine.py", *asked)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (project / "results").glob("*strict-priority*")
    loaded, manifest = valid(load_victim_run(run, "data")), read_manifest(run)
    assert manifest.versions["package sojourn-example"] == "0.1.0"
    assert loaded.options["service"] == "news" and loaded.options["qdisc_down"] == "prio bands 4"
    assert any(gate.code == "laboratory-probes" and gate.ok for gate in loaded.scores.validity.gates)
    assert ("contender-proven", "contender proven (lp-noecn)") in {
        (gate.code, gate.name) for gate in loaded.scores.validity.gates if gate.ok
    }
    (tmp_path / "mine.py").write_text(f"import sojourn\nprint(sojourn.load({str(run)!r}).probes.height)\n")
    assert int(called(installed, tmp_path, "mine").stdout) > 1000  # 100 a second, on two paths


def test_a_package_that_cannot_be_loaded_is_named_and_the_rest_works(installed: Path, tmp_path: Path) -> None:
    shutil.copytree(installed, broken := tmp_path / "packages", symlinks=True)
    (broken / "sojourn_example" / "news.py").write_text("import nonsuch\n")
    (broken / "sojourn_example" / "contenders.py").write_text("LP_NOECN = 'reno'\n")
    done = called(broken, tmp_path, "sojourn.harness.cli", "matrix", "--json")
    assert json.loads(done.stdout)
    script = "from sojourn.apps import SERVICES; import sojourn.traffic.contender, sys; sys.exit('news' in SERVICES)"
    done = called(broken, tmp_path, "timeit", "-n1", "-r1", script)
    assert "news of sojourn-example 0.1.0 is skipped: ModuleNotFoundError: No module named 'nonsuch'" in done.stderr
    assert "lp-noecn of sojourn-example 0.1.0 is skipped: not a Contender" in done.stderr
