# SPDX-License-Identifier: Apache-2.0
"""Programs that are missing are named before anything starts, by the lab that needs them and in one command."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from sojourn.hardware import simulation
from sojourn.hardware.machine import cache, programs
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.programs import Tool, install_command
from sojourn.harness.cli import app
from sojourn.harness.lab import doctor as examined
from sojourn.harness.lab.needs import built, missing, missing_text, needed
from tests.hidden import REAL_TIME, path_without
from tests.tiers import first

#: Of a refusal; what is not refused would run on in this process.
pytestmark = pytest.mark.timeout(300)

SOAK = "results = 'nights'\n[options]\ntimeline = 'solo:5,cubic:4'\nlab = 'virtual'\n[cells.a]\n"


@pytest.fixture
def simulated_only(tmp_path: Path) -> str:
    """The PATH of a machine that `make harm` has set up, and nothing else."""
    return path_without(tmp_path / "bin", *REAL_TIME)


def sojourn(path: str, *words: str, where: Path = CHECKOUT, **variables: str) -> Result:
    """Call a command in this process, in a folder and with the programs that `path` leads to."""
    with contextlib.chdir(where), pytest.MonkeyPatch.context() as patched:
        for module in (simulation, examined):  # whatever else takes memory now
            patched.setattr(module, "available_bytes", lambda: 32 << 30)
        patched.setattr(programs, "_PATH", os.pathsep.join([path, "/usr/local/sbin", "/usr/sbin", "/sbin"]))
        return CliRunner().invoke(app, words, env={"PATH": path, "COLUMNS": "80", **variables})


def doctor(path: str, where: Path, *options: str) -> Result:
    return sojourn(path, "doctor", *options, where=where)


def run(path: str, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a module as a process of its own, as what it finds out of its machine may be kept for the next."""
    environment = os.environ | {"PATH": path, "PYTHONPATH": str(CHECKOUT / "harness" / "api"), **variables}
    command = [sys.executable, "-P", "-m", *words]
    return subprocess.run(command, cwd=CHECKOUT, env=environment, capture_output=True, text=True, timeout=120)


def run_pytest(path: str, *words: str) -> subprocess.CompletedProcess[str]:
    return run(path, "pytest", "tests/test_video_harm.py", "-p", "no:cacheprovider", *words)


def names(tools: list[Tool]) -> set[str]:
    return {tool.name for tool in tools}


def test_a_lab_needs_what_it_runs_here() -> None:
    assert not names(needed("sim", driver="selenium", recorder="obs")) & set(REAL_TIME)
    assert {"chromium", "Xvfb", "caddy", "ethtool"} <= names(needed("virtual"))
    assert not {"chromedriver", "obs", "pasta"} & names(needed("virtual"))
    assert {"chromedriver", "obs"} <= names(needed("apu", driver="selenium", recorder="obs"))
    assert "chromium" not in names(needed("apu", browser=False))
    assert "caddy" not in names(needed("virtual", origin=False))
    assert {"pasta", "nft"} <= names(needed("virtual", uplink=True))
    assert "gcc" not in names(needed("black-box"))


def test_builders_are_needed_until_all_is_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "root", lambda: tmp_path)
    (tmp_path / "kernel" / ".abc.partial").mkdir(parents=True)
    (tmp_path / "kernel" / "abc.log").touch()
    assert not built(tmp_path / "kernel") and {"bison", "mmdebstrap"} <= names(needed("sim"))
    for folder in ("kernel", "desktop"):
        (tmp_path / folder / "abc").mkdir(parents=True)
    assert not names(needed("sim")) & {"bison", "mmdebstrap"} and "mmdebstrap" in names(needed("virtual"))


def test_one_command_installs_what_is_missing() -> None:
    absent = missing([Tool("sh", "dash"), Tool("no-such-b", "b"), Tool("no-such-a", "a"), Tool("nor-such-a", "a")])
    assert install_command(absent).endswith("apt-get install --no-install-recommends a b")
    assert install_command(absent).startswith("sudo ") == (os.geteuid() != 0)
    assert missing_text(absent) == f"2 packages are missing; install them with: {install_command(absent)}"
    assert missing_text(absent[1:2]) == f"1 package is missing; install it with: {install_command(absent[1:2])}"


def test_doctor_judges_each_lab_and_its_exit_code_the_one_in_use(simulated_only: str, tmp_path: Path) -> None:
    done = doctor(simulated_only, tmp_path)
    assert (done.exit_code, done.stderr) == (0, ""), done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert "sim: ready" in lines and "✗" not in done.stdout
    (virtual,) = (line for line in lines if line.startswith("virtual: "))
    assert re.search(
        r"^virtual: \d+ packages are missing; install them with: .*apt-get install .*caddy chromium", virtual
    )
    assert "obs-studio" not in virtual and "xvfb" in virtual
    (apu,) = (line for line in lines if line.startswith("apu: "))
    assert "lab.toml: No such file or directory; create one with `sojourn lab init`" in apu

    done = doctor(simulated_only, tmp_path, "--lab=virtual", "--recorder=obs")
    assert done.exit_code == 1 and "sim: " not in done.stdout
    assert done.stderr.startswith("sojourn: the virtual lab does not work here yet: ") and "obs-studio" in done.stderr
    assert done.stderr.count("\n") == 1
    assert doctor(simulated_only, tmp_path, "--lab=virtul").exit_code == 2


def test_doctor_tells_programs_that_simulated_time_misses(tmp_path: Path) -> None:
    done = doctor(path_without(tmp_path / "bin", "ffmpeg"), tmp_path, "--json")
    found = {it["subject"]: it for it in json.loads(done.stdout)}
    assert done.exit_code == 1 and "the sim lab does not work here yet: 1 package is missing" in done.stderr
    assert found["sim lab"]["fix"].endswith("--no-install-recommends ffmpeg")
    assert found["ffmpeg"]["labs"] == ["sim", "virtual", "apu", "black-box"]


CANNOT_WORK = [
    (("--lab=virtual",), r"--lab=virtual: \d+ packages are missing; install them with: .* chromium .* xvfb"),
    (("--lab=virtual", "--recorder=obs"), r"--lab=virtual --recorder=obs: \d+ packages .* obs-studio .*"),
    (("--lab=apu",), r"--lab-file: lab.toml: No such file or directory; create one with `sojourn lab init`"),
]


@pytest.mark.parametrize(("words", "line"), CANNOT_WORK)
def test_a_run_that_cannot_work_is_refused(
    simulated_only: str, tmp_path: Path, words: tuple[str, ...], line: str
) -> None:
    done = sojourn(simulated_only, "harm", *words, f"--results={tmp_path / 'results'}")
    assert done.exit_code == 4 and not done.stdout, done.stdout
    assert re.fullmatch(f"sojourn: {line}\n", done.stderr), done.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(("words", "line"), first(1, CANNOT_WORK))
def test_a_test_that_cannot_work_is_a_usage_error(
    simulated_only: str, tmp_path: Path, words: tuple[str, ...], line: str
) -> None:
    done = run_pytest(simulated_only, *words, f"--results={tmp_path / 'results'}")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR and "FAILURES" not in done.stdout, done.stdout
    assert re.fullmatch(f"ERROR: {line}\n\n", done.stderr), done.stderr
    assert not (tmp_path / "results").exists()


def test_experiments_that_are_not_selected_need_nothing(simulated_only: str, tmp_path: Path) -> None:
    done = run_pytest(simulated_only, "-m", "not experiment", "--lab=virtual", f"--results={tmp_path / 'results'}")
    assert done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, done.stdout + done.stderr
    assert not (tmp_path / "results").exists()


def test_a_night_that_cannot_work_is_not_begun(simulated_only: str, tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(SOAK)
    done = sojourn(simulated_only, "soak", str(tmp_path / "plan.toml"), "--hours=1", "--status=off")
    assert done.exit_code == 2 and done.stdout == "", done.stdout
    assert re.fullmatch(r"sojourn: --lab=virtual: \d+ packages are missing; .*\n", done.stderr), done.stderr
    assert not (tmp_path / "nights").exists()


@pytest.mark.parametrize(
    ("matrix", "packages"),
    [("one-flow", {"irtt", "iputils-ping"}), ("a call", {"chromium", "ffmpeg", "irtt", "iputils-ping", "xvfb"})],
)
def test_a_matrix_that_cannot_work_is_refused_before_anything_starts(
    tmp_path: Path, matrix: str, packages: set[str]
) -> None:
    path = path_without(tmp_path / "bin", *REAL_TIME, "ffmpeg")
    if matrix == "a call":
        (tmp_path / "call.toml").write_text('service = "call"\ncontenders = "cubic"\n')
        matrix = str(tmp_path / "call.toml")
    done = run(path, "sojourn.harness.cli", "matrix", matrix, "--lab=virtual", f"--results={tmp_path / 'results'}")
    assert done.returncode == 1 and done.stdout == ""
    told_of = re.fullmatch(
        r"sojourn: --lab=virtual: \d+ packages are missing; install them with: .* --no-install-recommends (.*)\n",
        done.stderr,
    )
    assert told_of and packages <= set(told_of[1].split()), done.stderr
    assert not ({"caddy", "chromium", "ffmpeg", "xvfb"} - packages) & set(told_of[1].split())
    assert not (tmp_path / "results").exists()


def test_a_matrix_in_simulated_time_needs_the_builders_of_its_guest_alone(tmp_path: Path) -> None:
    path = path_without(tmp_path / "bin", *REAL_TIME, "ffmpeg", "mmdebstrap")
    words = ("sojourn.harness.cli", "matrix", "one-flow", f"--results={tmp_path / 'results'}")
    done = run(path, *words, SOJOURN_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 1 and done.stdout == ""
    assert re.fullmatch(r"sojourn: --lab=sim: 1 package is missing; .* mmdebstrap\n", done.stderr), done.stderr
    assert not (tmp_path / "results").exists() and not (tmp_path / "cache").exists()


def test_a_machine_that_cannot_be_confined_is_told_before_anything_starts(tmp_path: Path) -> None:
    """Landlock and namespaces refused, here by a name that is neither."""
    words = ("sojourn.harness.cli", "harm", f"--results={tmp_path / 'results'}")
    refused = {"SOJOURN_CONFINEMENT": "walls"}
    done = run(os.environ["PATH"], "sojourn.harness.cli", "matrix", "one-flow", words[2], **refused)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "sojourn: SOJOURN_CONFINEMENT=walls is unknown; give namespaces, landlock, none\n"
    done = run(os.environ["PATH"], *words, **refused)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR and "FAILURES" not in done.stdout
    assert done.stderr == "sojourn: SOJOURN_CONFINEMENT=walls is unknown; give namespaces, landlock, none\n"
    assert not (tmp_path / "results").exists()
    done = run(os.environ["PATH"], "sojourn.harness.cli", "doctor", "--lab=sim", **refused)
    assert done.returncode == 1 and "confinement: SOJOURN_CONFINEMENT=walls is unknown; give namespaces" in done.stderr
