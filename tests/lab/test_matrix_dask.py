# SPDX-License-Identifier: Apache-2.0
"""A matrix on a Dask cluster of two workers, one of them killed in mid-run: every run is made, the same as here."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from sojourn.bottleneck.cell import Cell
from sojourn.bottleneck.qdiscs import parse_qdisc
from sojourn.bottleneck.spec import Direction, Hop
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.harness.engine.dask import DaskEngine
from sojourn.harness.engine.job import EngineError
from sojourn.harness.engine.local import LocalEngine
from sojourn.harness.matrix import dumbbell
from sojourn.harness.matrix.cells import simulated_call
from sojourn.harness.matrix.cells.cell_run import CellJob, SimulatedInputs, cache_state
from sojourn.harness.matrix.cells.simulated import MEMORY_BYTES
from sojourn.harness.matrix.complete import complete
from sojourn.harness.matrix.results import run_folder
from sojourn.harness.store.manifest import read_manifest
from sojourn.scoring.schema.files import RAW
from sojourn.scoring.schema.scores import SCORES
from sojourn.traffic.spec import Call, Flow
from tests.processes import of_name, outliving
from tests.refusals import refusal
from tests.tiers import first

pytestmark = pytest.mark.lab

API = CHECKOUT / "harness" / "api"


def jobs(count: int, seconds: float = 10) -> list[CellJob]:
    hop = Hop(down=Direction(rate_bps=50_000_000, qdisc=parse_qdisc("dualpi2", "test")))
    flows = tuple(Flow(contender=name, rtt_us=20_000) for name in ("prague", "cubic"))
    cell = Cell(name="two", flows=flows, hops=(hop,), seconds=seconds)
    return [CellJob(cell, seed, 5, 2, SimulatedInputs()()) for seed in range(1, count + 1)]


def dask_engine(address: str, inputs: str) -> DaskEngine:
    """As a matrix makes it."""
    return DaskEngine(address, inputs, SimulatedInputs(), MEMORY_BYTES, ahead=2)


@contextmanager
def daemon(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """A process of Dask; the first line with an address is waited for."""
    process = subprocess.Popen(
        [sys.executable, "-m", "distributed.cli." + arguments[0], *arguments[1:]],
        cwd=CHECKOUT, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(API), **environment},
    )  # fmt: skip
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:  # Dask's own: one whose scheduler went first waits for it now and then
            process.kill()
            process.communicate()


def told(process: subprocess.Popen[str], words: str) -> str:
    """Wait for a line of a process's log and return it."""
    assert process.stderr
    for line in process.stderr:
        if words in line:
            return line
    pytest.fail(f"it ended without {words!r}")


@contextmanager
def cluster(
    workers: int, folder: Path, nanny: bool, protocol: str = "tcp", **environment: str
) -> Iterator[tuple[str, list[psutil.Process]]]:
    """A scheduler and its workers of one thread each; the address and the processes that run the cells."""
    with ExitStack() as stack:
        where = ["--host=127.0.0.1", "--port=0", "--dashboard-address=127.0.0.1:0", f"--protocol={protocol}"]
        scheduler = stack.enter_context(daemon("dask_scheduler", *where, **environment))
        address = told(scheduler, "Scheduler at:").split()[-1]
        kind = "--nanny" if nanny else "--no-nanny"
        arguments = [address, "--nthreads=1", "--no-dashboard", f"--local-directory={folder}", kind]
        started = [stack.enter_context(daemon("dask_worker", *arguments, **environment)) for _ in range(workers)]
        for worker in started:
            told(worker, "Registered to:")
        processes = [psutil.Process(worker.pid) for worker in started]
        yield address, [child for it in processes for child in it.children()] if nanny else processes


def at_work(workers: list[psutil.Process]) -> list[psutil.Process]:
    """Wait until a worker runs a guest (it may be scoring when another run ends); return it and what it runs."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for worker in workers:
            programs = worker.children(recursive=True)  # of a preparation too, before any guest
            if of_name(programs, "linux"):
                return [worker, *programs]
    pytest.fail("no guest runs on any worker")


@pytest.mark.parametrize("nanny", first(1, [False, True]), ids=["lost", "restarted"])
def test_a_lost_worker_costs_nothing_but_time(tmp_path: Path, nanny: bool) -> None:
    here, there, scratch = (tmp_path / name for name in ("here", "there", "scratch"))
    wanted = jobs(4)
    assert {it.status for it in complete(wanted, LocalEngine(MEMORY_BYTES), here)} == {"ran"}
    with cluster(2, scratch, nanny) as (address, workers):
        statuses, killed = [], []
        for outcome in complete(wanted, dask_engine(address, wanted[0].inputs), there):
            statuses.append(outcome.status)
            if not killed:
                killed = at_work(workers)
                killed[0].send_signal(signal.SIGKILL)
        assert statuses == ["ran"] * len(wanted)
        assert not outliving(killed), "guests outlive their worker"
    for job in wanted:
        runs = [run_folder(folder, job.cell, job.seed) for folder in (here, there)]
        assert all((runs[0] / name).exists() == (runs[1] / name).exists() for name in RAW)
        first, second = (read_manifest(run).files for run in runs)
        assert all(first.get(name) == second.get(name) for name in RAW)
    assert not list(tmp_path.rglob("*.partial"))


@pytest.mark.nightly
def test_a_cell_with_a_call_has_its_machine_at_the_worker(tmp_path: Path) -> None:
    cell = Cell(
        name="call", flows=dumbbell.flows(["cubic"], 20), hops=(dumbbell.bottleneck(10, "dualpi2"),), seconds=8,
        call=Call(bitrate_bps=1_000_000, rtt_us=20_000),
    )  # fmt: skip
    wanted = CellJob(cell, 1, 5, 2, simulated_call.inputs(), "iperf3", run=simulated_call.run_cell)
    with cluster(1, tmp_path / "scratch", nanny=False) as (address, _):
        engine = DaskEngine(address, wanted.inputs, simulated_call.inputs, 4 << 30)
        (outcome,) = complete([wanted], engine, tmp_path / "results")
    assert (outcome.status, outcome.error) == ("ran", "")
    assert len((outcome.folder / "talks.csv").read_text().splitlines()) > 100
    assert (outcome.folder / "evidence").is_dir() and cache_state(wanted, outcome.folder) == "done"


TLS = "DASK_DISTRIBUTED__COMM__TLS__"


def certificates(folder: Path) -> dict[str, str]:
    """A certificate for all of a cluster, and Dask's variables that name it."""
    command = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    command += ["-subj", "/CN=sojourn", "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(command, check=True, capture_output=True)
    named = {f"{TLS}CA_FILE": str(folder / "cert.pem")}
    for who in ("SCHEDULER", "WORKER", "CLIENT"):
        named |= {f"{TLS}{who}__CERT": str(folder / "cert.pem"), f"{TLS}{who}__KEY": str(folder / "key.pem")}
    return named


def test_a_cluster_over_tls_lets_nobody_in_without_a_certificate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dask
    import distributed  # its own defaults go into the configuration first

    assert distributed
    named = certificates(tmp_path)
    (wanted,) = jobs(1, seconds=6)
    with cluster(1, tmp_path / "scratch", nanny=False, protocol="tls", **named) as (address, _):
        assert address.startswith("tls://")
        ours = {name.removeprefix("DASK_").replace("__", ".").lower(): value for name, value in named.items()}
        with dask.config.set(ours):
            (outcome,) = complete([wanted], dask_engine(address, wanted.inputs), tmp_path / "results")
        assert (outcome.status, outcome.error) == ("ran", "")
        monkeypatch.setattr("sojourn.harness.engine.dask._CONNECT_S", 3)
        for other in (address, address.replace("tls://", "tcp://")):
            with pytest.raises(EngineError):
                dask_engine(other, wanted.inputs)


#: A worker's preload: what it returns in place of runs, one after another.
HOSTILE = """
import io, itertools, json, zipfile
from sojourn.harness.engine import dask

# Dask loads it twice.
honest = dask.honest = getattr(dask, "honest", dask.run_packed)
turns = itertools.count()

def archive(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in files.items():
            made.writestr(name, data)
    return content.getvalue()

def changed(returned, name, change):
    with zipfile.ZipFile(io.BytesIO(returned)) as made:
        files = {it: made.read(it) for it in made.namelist()}
    return archive(files | {name: change(files[name])})

def about(**fields):
    return lambda content: json.dumps(json.loads(content) | fields).encode()

def hostile(job, *given):
    turn = next(turns) % 8
    if turn < 5:
        odd = (None, b"garbage", archive({}), archive({"../../out": b"x"}), archive({"zeros": bytes(300 << 20)}))[turn]
        return (odd, "") if turn else None
    run, why = honest(job, *given)
    if turn == 5:
        return changed(run, "manifest.json", about(seed=job.seed + 1)), why
    if turn == 6:
        return changed(run, "flows.csv", lambda content: content.replace(b"1", b"2")), why
    return changed(run, "scores.json", about(goodput=1)), why

dask.run_packed = hostile
"""


REFUSED = (
    *["no valid archive of a run"] * 2, "not a run of this cell", "leads out of its run: '../../out'",
    *["not a run of this cell"] * 3, "",
)  # fmt: skip
"""What is said of each; altered scores are computed again."""


@pytest.mark.nightly
def test_what_a_hostile_worker_returns_is_no_result_and_a_killed_one_costs_nothing(tmp_path: Path) -> None:
    import dask
    import distributed

    assert distributed
    here, there, scratch = (tmp_path / name for name in ("here", "there", "scratch"))
    (tmp_path / "hostile.py").write_text(HOSTILE)
    named, wanted = certificates(tmp_path), jobs(len(REFUSED), seconds=6)
    ours = {name.removeprefix("DASK_").replace("__", ".").lower(): value for name, value in named.items()}
    assert {it.status for it in complete(wanted, LocalEngine(MEMORY_BYTES), here)} == {"ran"}
    with cluster(0, scratch, False, "tls", **named) as (address, _), dask.config.set(ours):
        arguments = [address, "--nthreads=1", "--no-dashboard", f"--local-directory={scratch}"]
        with daemon("dask_worker", *arguments, "--no-nanny", f"--preload={tmp_path / 'hostile.py'}", **named) as worse:
            told(worse, "Registered to:")
            errors = [it.error for it in complete(wanted, dask_engine(address, wanted[0].inputs), there)]
        assert all(any(why in error for error in errors) for why in REFUSED), errors
        assert sum(not error for error in errors) == 1, errors
        assert not list(tmp_path.rglob("out")), "a file outside of its run"
        with daemon("dask_worker", *arguments, "--nanny", **named) as better:
            told(better, "Registered to:")
            statuses, killed = [], []
            for outcome in complete(wanted, dask_engine(address, wanted[0].inputs), there):
                statuses.append(outcome.status)
                if outcome.status == "ran" and not killed:
                    killed = at_work(psutil.Process(better.pid).children())
                    killed[0].send_signal(signal.SIGKILL)
            assert sorted(statuses) == ["kept", *["ran"] * 7] and killed and not outliving(killed)
    for job in wanted:
        runs = [run_folder(folder, job.cell, job.seed) for folder in (here, there)]
        assert cache_state(job, runs[1]) == "done"
        first, second = (read_manifest(run).files for run in runs)
        assert all(first.get(name) == second.get(name) for name in (*RAW, SCORES))
    assert not [*there.rglob("*.partial"), *there.rglob("*.failed")]


def test_a_worker_with_other_inputs_is_refused(tmp_path: Path) -> None:
    with (
        cluster(1, tmp_path, nanny=False) as (address, _),
        refusal(EngineError, "other-version"),
    ):
        dask_engine(address, "other")
    assert open_clients() == []


@pytest.mark.parametrize(
    ("address", "reason"), [("tcp://127.0.0.1:9", "no Dask scheduler"), ("tcp://localhost:nine", "nine")]
)
def test_a_scheduler_that_is_not_there_is_named(address: str, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.harness.engine.dask._CONNECT_S", 1)
    with refusal(EngineError, "unreachable", f"--engine: {address}: ", reason):
        dask_engine(address, "one")
    assert open_clients() == []


def open_clients() -> list[object]:
    """The clients whose collection would close them, and the threads of any: a lock of Dask's may hang on these."""
    from distributed import Client

    clients = [it for it in gc.get_objects() if isinstance(it, Client) and it.status != "closed"]
    return [*clients, *(thread for thread in threading.enumerate() if thread.name == "IO loop")]
