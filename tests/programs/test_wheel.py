# SPDX-License-Identifier: Apache-2.0
"""What an installation makes importable: `sojourn` alone, next to packages that have the names of its rooms."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import sysconfig
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from sojourn.hardware.machine.files import CHECKOUT, LOCK

#: Packages of others: a project's own, and in short what pandas does with Bottleneck.
OTHERS = {
    "apps": "WHOSE = 'theirs'",
    "harness": "WHOSE = 'theirs'",
    "tests": "",
    "bottleneck": "def nansum(numbers): return sum(numbers)",
    "pandas": "import bottleneck\ndef total(numbers): return bottleneck.nansum(numbers)",
}
WORKS = """
import importlib.util, json, os, sys
import apps, harness, tests, bottleneck, pandas
import sojourn, sojourn.harness.cli, sojourn.bottleneck.spec, sojourn.apps
import typer, pytest
assert apps.WHOSE == harness.WHOSE == "theirs" and "youtube" in sojourn.apps.SERVICES and callable(sojourn.load)
assert bottleneck.nansum([1, 2]) == 3
alone = ("traffic", "captures", "scoring", "hardware", "conftest", "benchmarks")
print(json.dumps([name for name in alone if importlib.util.find_spec(name)]))
"""


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    # What leads a process of this test to a checkout must not lead those.
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "PYTEST", "SOJOURN_"))}
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=kept, capture_output=True, text=True, timeout=300, check=False
    )


def environment(place: Path, dependencies: Path) -> Path:
    """A fresh environment that has Sojourn's dependencies and nothing of Sojourn; returns its folder of packages."""
    done = run(sys.executable, "-m", "venv", "--without-pip", place, cwd=place.parent)
    assert done.returncode == 0, done.stderr
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{dependencies}\n")
    return packages


@pytest.fixture(scope="module")
def dependencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dependencies")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if "sojourn" not in path.name and path.suffix != ".pth":
            (folder / path.name).symlink_to(path)
    return folder


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    done = run(
        sys.executable, "-m", "pip", "wheel", "-q", "--no-cache-dir", "--no-deps", "--no-build-isolation", "-w", folder,
        CHECKOUT, cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module", params=["wheel", "editable"])
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, dependencies: Path) -> Path:
    """The `bin` of an environment with Sojourn and the packages of others."""
    place = tmp_path_factory.mktemp(request.param) / "environment"
    packages = environment(place, dependencies)
    what = [request.getfixturevalue("wheel")] if request.param == "wheel" else ["--no-build-isolation", "-e", CHECKOUT]
    done = run(place / "bin/python", "-m", "pip", "install", "-q", "--no-deps", "--no-index", *what, cwd=place)
    assert done.returncode == 0, done.stderr
    for name, source in OTHERS.items():
        (packages / name).mkdir()
        (packages / name / "__init__.py").write_text(source)
    return place / "bin"


def test_the_wheel_has_one_name_at_its_top(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"sojourn"} and len(tops) == 2


def test_it_needs_ranges_and_the_lock_pins_a_version_within_each(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(archive.read(name).decode())
    needs = [Requirement(text) for text in metadata.get_all("Requires-Dist", ())]
    pins = dict(re.findall(r"(?m)^([\w.-]+)(?:\[.*\])?==([^\s;]+)", LOCK.read_text()))
    ranges = [need for need in needs if "dev" not in str(need.marker)]
    assert len(ranges) > 20 and all(len(need.specifier) == 1 and ">=" in str(need.specifier) for need in ranges)
    assert [str(need) for need in needs if pins[need.name] not in need.specifier] == []


def test_nothing_else_of_it_is_importable_and_others_stay_as_they_are(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "works.py").write_text(WORKS)
    done = run(installed / "python", "works.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == []


def test_its_commands_run_in_a_project_that_has_those_names(installed: Path, tmp_path: Path) -> None:
    for name in ("apps", "harness", "tests", "bottleneck", "scoring"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('theirs')")
    assert "harm" in run(installed / "sojourn", "--help", cwd=tmp_path).stdout
    known = json.loads(run(installed / "sojourn", "matrix", "--json", cwd=tmp_path).stdout)
    assert {"s1", "s6"} <= {matrix["name"] for matrix in known}
    refused = run(installed / "sojourn", "harm", "--qdisc=nonsense", cwd=tmp_path)
    assert refused.returncode == 4 and 'unknown qdisc "nonsense"' in refused.stderr, refused.stdout


def test_a_project_runs_its_own_tests_with_the_plugin(installed: Path, tmp_path: Path) -> None:
    for name in ("apps", "harness", "tests"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("WHOSE = 'this project'")
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["sojourn.harness.experiment.plugin"]\n')
    (tmp_path / "tests" / "test_theirs.py").write_text(
        "import apps, harness, pandas, tests\n"
        "def test(options):\n"
        "    assert apps.WHOSE == harness.WHOSE == tests.WHOSE == 'this project'\n"
        "    assert pandas.total([1, 2]) == 3 and options.service\n"
    )
    done = run(installed / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
    (tmp_path / "conftest.py").unlink()
    foreign = run(installed / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--qdisc=pie", cwd=tmp_path)
    assert foreign.returncode == 4 and "--qdisc=pie" in foreign.stderr, "other projects have none of its options"


@pytest.mark.nightly
def test_pandas_and_bottleneck_themselves_work_next_to_it(wheel: Path, dependencies: Path, tmp_path: Path) -> None:
    packages = environment(tmp_path / "environment", dependencies)
    python = tmp_path / "environment/bin/python"
    done = run(python, "-m", "pip", "install", "-q", wheel, "pandas", "Bottleneck", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    script = (
        "import bottleneck, pandas, sojourn.bottleneck.spec\n"
        "print(bottleneck.nansum([1.0, float('nan')]), pandas.Series([1, 2]).sum(), bottleneck.__file__)"
    )
    done = run(python, "-c", script, cwd=tmp_path)
    assert done.stdout.split() == ["1.0", "3", str(packages / "bottleneck" / "__init__.py")], done.stderr


def test_wheel_and_source_archive_have_the_same_bytes_every_time(tmp_path: Path) -> None:
    digests = []
    for name in ("one", "other"):
        environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        command = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path / name)]
        subprocess.run(command, cwd=CHECKOUT, env=environment, check=True, capture_output=True, timeout=300)
        digests.append({it.name: hashlib.sha256(it.read_bytes()).hexdigest() for it in (tmp_path / name).iterdir()})
    assert len(digests[0]) == 2 and digests[0] == digests[1]
