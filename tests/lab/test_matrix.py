# SPDX-License-Identifier: Apache-2.0
"""`sojourn matrix` and pytest on real simulated cells: run, kept, interrupted, refused."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.cli import app
from sojourn.harness.store.manifest import MANIFEST, PARTIAL, read_manifest
from tests.processes import of_name, outliving
from tests.tiers import first

pytestmark = pytest.mark.lab


def matrix(results: Path, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "sojourn.harness.cli", "matrix", *arguments, f"--results={results}"]
    return subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_pytest(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=120)


def test_runs_are_made_once_and_shared_with_pytest(tmp_path: Path) -> None:
    told, errors = matrix(tmp_path, "s6", "-k", "vs-cubic-ecn-fq_codel", "--repeat=2").communicate(timeout=600)
    assert "4 runs made" in told, told + errors
    report = tmp_path / "s6" / "report.html"
    assert told.splitlines()[-1] == str(report) and report.exists()
    made = sorted((tmp_path / "s6").glob(f"*/seed-*/{MANIFEST}"))
    results = {read_manifest(path.parent).files["flows.csv"].sha256 for path in made}
    assert len(made) == len(results) == 4

    chosen = ["-k", "vs-cubic-ecn-fq_codel and not 1ms", "--repeat=1", f"--results={tmp_path}", "-s"]
    done = run_pytest("tests/test_rfc3168_aqms.py", *chosen)
    assert "1 selected" in done.stdout and f"report: {report}" in done.stdout, done.stdout
    assert "fq_codel(1q)-50mbit-20ms, seed 1: Prague Mbit/s " in done.stdout
    assert sorted((tmp_path / "s6").glob(f"*/seed-*/{MANIFEST}")) == made


@pytest.mark.parametrize("how", first(2, [signal.SIGTERM, signal.SIGKILL, signal.SIGINT]))
def test_an_interrupted_matrix_leaves_no_guest_and_resumes(tmp_path: Path, how: signal.Signals) -> None:
    arguments = ("s6", "-k", "reno fq_codel", "--repeat=1")
    process = matrix(tmp_path, *arguments)
    tree = psutil.Process(process.pid)
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob("s6/*/seed-1")) or not of_name(tree.children(True), "linux"):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    children = tree.children(recursive=True)
    process.send_signal(how)
    process.communicate(timeout=120)
    assert process.returncode != 0
    assert not outliving(children)
    finished = list(tmp_path.glob(f"s6/*/seed-1/{MANIFEST}"))
    assert finished
    assert how == signal.SIGKILL or not list(tmp_path.rglob(f"*{PARTIAL}"))

    told, errors = matrix(tmp_path, *arguments).communicate(timeout=600)
    assert f"{4 - len(finished)} runs made, {len(finished)} kept" in told, told + errors
    assert not list(tmp_path.rglob(f"*{PARTIAL}"))


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["s66"], "sojourn: unknown matrix 's66'; known: "),
        (["s6", "-k", "nothing like it"], "sojourn: matrix s6: no cell's name contains 'nothing like it'"),
        (["fct", "--lab=virtual"], "sojourn: matrix fct: the virtual lab has "),
        (["s6", "--lab=virtual", "--pcap"], "sojourn: --pcap"),
        (["s6", "--lab=simulated"], "sojourn: --lab: unknown 'simulated'; known: sim, virtual, apu"),
        (
            ["s6", "--engine=spark"],
            "sojourn: --engine: 'spark' is neither local nor tls://HOST:PORT or dask://localhost:PORT",
        ),
        (["s6", "--endpoints=netperf"], "sojourn: --endpoints: unknown 'netperf'; known: bulk, iperf3"),
        (["s6", "--jitter-gate=5ms"], "sojourn: --jitter-gate: simulated time has no jitter of a host; omit it"),
        (["s6", "--lab-file=mine.toml"], "sojourn: --lab-file: the sim lab has none; omit it"),
        (["s6", "--lab=virtual", "--endpoints=iperf3"], "sojourn: --endpoints: the virtual lab always uses iperf3"),
        (["s6", "--lab=virtual", "--workers=2"], "sojourn: --workers: cells run at once only in sim"),
        (["s6", "--lab=apu", "--lab-file=no.toml"], "sojourn: --lab-file: no.toml: No such file"),
    ],
)
def test_what_cannot_run_ends_with_one_line(tmp_path: Path, arguments: list[str], line: str) -> None:
    done = CliRunner().invoke(app, ["matrix", *arguments, f"--results={tmp_path}"])
    assert done.exit_code == 1
    assert done.stderr.startswith(line) and done.stderr.count("\n") == 1, done.stderr
