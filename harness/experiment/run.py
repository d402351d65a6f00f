# SPDX-License-Identifier: Apache-2.0
"""From options to a finished evidence directory: set up the lab, record, score, report, commit."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

from rich.console import Console
from rich.text import Text

from sojourn.apps import SERVICES
from sojourn.apps.base import Service
from sojourn.apps.browsers.drivers import DRIVERS
from sojourn.apps.second import second_service
from sojourn.apps.two_party import TwoParty
from sojourn.captures.recorders import RECORDERS
from sojourn.hardware import simulation
from sojourn.hardware.confine.confinement import confinement
from sojourn.hardware.confine.decoder import trusted_files
from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.lab.lab_file import PHYSICAL, LabFile, LabFileError, read_lab_file
from sojourn.hardware.machine.cache import ProgressCallback
from sojourn.hardware.machine.files import is_locked, replace_file
from sojourn.hardware.machine.programs import host_versions
from sojourn.hardware.machine.signals import deferred_signals, ended_by_signals
from sojourn.harness.experiment import simulated
from sojourn.harness.experiment.guest_news import SimulatedClock
from sojourn.harness.experiment.progress import ExperimentProgress
from sojourn.harness.experiment.recording import RecordedRun, run_experiment
from sojourn.harness.experiment.run_lab import with_parts
from sojourn.harness.lab.check import require_reached, require_uplink
from sojourn.harness.lab.contract import LabFactory
from sojourn.harness.lab.machine import MEMORY
from sojourn.harness.lab.make import lab_maker
from sojourn.harness.lab.needs import require_programs, require_server_here
from sojourn.harness.lab.physical import PhysicalLab
from sojourn.harness.options.model import RETAIN_ON_FAILURE, Options
from sojourn.harness.options.parsing import LOCAL
from sojourn.harness.report.run_page import page
from sojourn.harness.store.disk_usage import size_words
from sojourn.harness.store.integrity import verify_run
from sojourn.harness.store.manifest import (
    MANIFEST,
    REPORT,
    SIGNATURE,
    StoreError,
    prune,
    require_outside_runs,
    store_derived,
)
from sojourn.harness.store.reasons import of_gates
from sojourn.harness.store.runs import RunDirectory, RunStore
from sojourn.harness.store.signature import sign
from sojourn.harness.terminal import console_of, steps
from sojourn.scoring.evidence import Setting, needed
from sojourn.scoring.schema.files import OPTIONS
from sojourn.scoring.schema.scores import SCORES, Scores
from sojourn.scoring.score import score_run
from sojourn.traffic import user_program
from sojourn.traffic.program_check import require_runnable


@dataclass(frozen=True)
class Result:
    """A committed run: the path of its evidence, its scores, and why it is invalid (empty: valid)."""

    path: Path
    scores: Scores
    void: tuple[str, ...]


Begun = Callable[[RunDirectory], None]
"""Takes the directory of a run that begins."""


def require_ready(options: Options) -> LabFile | None:
    """Check all requirements of a run that can be checked before anything starts; return the lab file, if any.

    Raises LabFileError, ToolError, SimulationError, ConfinementError, BrowserError, SignatureError or StoreError, with
    the fix, for the first missing requirement.
    """
    require_outside_runs(options.results, "results")
    described = _machines(options)
    if described:
        require_server_here(options, described)
    require_programs(options)
    if options.lab == "sim" and options.engine == LOCAL:
        simulation.check_memory(MEMORY)
        simulation.check_open_files(simulation.WITH_BROWSER)
    if options.lab not in PHYSICAL and options.engine == LOCAL:
        confinement()
    if options.lab != "sim":  # a simulated machine has its own
        if SERVICES[options.service].screen:
            DRIVERS[options.driver].check(stranger=options.elsewhere, program=options.browser, profile=options.profile)
            RECORDERS[options.recorder].check()
        if options.second_video:  # in Debian's Chromium, whatever the victim's browser
            DRIVERS[options.driver].check()
    if described:
        require_reached(described)
        if options.elsewhere:
            require_uplink(described, options.url)
    if options.sign:
        sign(b"", options.sign)
    RunStore(options.results).check(options.needed_bytes)
    return described


def require_space(runs: Sequence[Options], results: Path, console: Console) -> None:
    """Print how much space several runs need at most, and raise StoreError if there is less."""
    needed = sum(options.needed_bytes for options in runs)
    free = RunStore(results).check(needed, len(runs))
    if len(runs) > 1:
        console.print(Text(f"{len(runs)} runs need at most {size_words(needed)}; {size_words(free)} are free"))


def perform(
    test: str,
    options: Options,
    command_line: Sequence[str],
    terminal: TextIO,
    begun: Begun = lambda _: None,
) -> Result:
    """Run the experiment described by `options` and return its result; progress goes to `terminal`.

    `begun` gets the run's directory before anything is recorded. Raises whatever stops the run (each with one line
    that says what to do); recorded data is kept in a directory that ends in `.partial`.
    """
    described = require_ready(options)
    service = SERVICES[options.service].from_options(options)
    console = console_of(terminal)
    if described:
        options = options.replace(
            ip_version=described.ip_version, **({"box": described.box.name} if described.box else {})
        )
    with ended_by_signals(), steps(console) as step:
        record = _recorder(options, described, service, step, console)

    with ended_by_signals(), new_run(test, options, command_line, begun) as run:
        return finish_run(run, options, fill_run(run, options, record, lambda text: console.print(Text(text))))


def name_of_test(options: Options) -> str:
    """Return the test in whose name a run is made, whichever command makes it."""
    return "call-harm" if issubclass(SERVICES[options.service], TwoParty) else "video-harm"


def new_run(test: str, options: Options, command_line: Sequence[str], begun: Begun = lambda _: None) -> RunDirectory:
    """Make the directory of a run and pass it to `begun`. Raises StoreError, and what `begun` raises."""
    run = RunStore(options.results).create(
        test,
        options.cell,
        seed=options.seed,
        drawn=options.drawn,
        command_line=command_line,
        needed=options.needed_bytes,
    )
    begun(run)
    return run


def finish_run(run: RunDirectory, options: Options, scores: Scores) -> Result:
    """Judge a run whose directory is filled, commit it, write its report and sign it.

    The recording of a valid run is deleted first if the options require so; the manifest keeps its hash. Raises as
    `perform`, and SignatureError if the run was kept but could not be signed.
    """
    with deferred_signals():  # a series keeps a run that is committed, and does not complete it later
        result = _commit(run, scores, retain=options.video != RETAIN_ON_FAILURE)
    if options.sign:
        replace_file(result.path / SIGNATURE, sign((result.path / MANIFEST).read_bytes(), options.sign))
    return result


def finish_unscored(path: Path) -> Result:
    """Score and commit a run that `is_unscored`; it is not signed.

    Raises StoreError if it is in use or a file differs from the manifest, RecordError as `score_run`.
    """
    if is_locked(path):
        raise StoreError(f"{path}: is in use by another process; wait for its end", code="in-use")
    manifest = verify_run(path, derived=(SCORES, REPORT))
    manifest.reasons = []
    with RunDirectory(path, manifest) as run:
        run.recorded()
        return _commit(run, _score(path))


def _commit(run: RunDirectory, scores: Scores, *, retain: bool = True) -> Result:
    run.require(OPTIONS, SCORES, *(name for names in needed(Setting.read(run.path)) for name in names))
    void = tuple(scores.validity.reasons)
    run.void(*of_gates(scores.validity))
    path = run.commit()
    if not (retain or void) and "screen.mp4" in run.manifest.files:
        prune(path, "screen.mp4")
    # Only now: the page of a run that is killed before its end must not describe a finished one.
    store_derived(path, REPORT, page(path, scores).encode())
    return Result(path, scores, void)


class FillableRun(RecordedRun, Protocol):
    """The destination of a run's files, which learns when the recording is complete."""

    def recorded(self) -> None: ...


def fill_run(
    run: FillableRun, options: Options, record: Callable[[RecordedRun], None], say: Callable[[str], None]
) -> Scores:
    """Write the options to a run's directory, let `record` add the evidence, score it; return the scores."""
    (run.path / OPTIONS).write_text(json.dumps(options.record(), indent=1) + "\n")
    run.add_versions(host_versions())
    record(run)
    run.recorded()
    say("scoring")
    with trusted_files():
        return _score(run.path)


def _score(path: Path) -> Scores:
    scores = score_run(path)
    (path / SCORES).write_text(scores.model_dump_json(indent=1) + "\n")
    return scores


def _recorder(
    options: Options,
    described: LabFile | None,
    service: Service,
    step: Callable[[str], ProgressCallback],
    console: Console,
) -> Callable[[RecordedRun], None]:
    """Build what the lab needs before anything starts; the returned function records a run there."""
    if options.lab == "sim":
        machine = simulated.prepare(options, service, step)

        def simulate(run: RecordedRun) -> None:
            clock = SimulatedClock()
            with ExperimentProgress(options.cell, options.phases, console, clock) as progress:
                simulated.record(options, service, run, progress, clock, machine)

        return simulate
    if options.programs:
        require_runnable(options.programs, ensure_guest(progress=step("guest root")).root)
    make_lab = _lab_maker(options, described, step, console)
    service.prepare(step("film"))
    if options.second_video:
        second_service(options).prepare(step("second film"))

    def play(run: RecordedRun) -> None:
        with ExperimentProgress(options.cell, options.phases, console) as progress:
            run.add_versions(user_program.versions(options.programs))
            lab = make_lab(run.path)
            run_experiment(options, run, with_parts(lab, options, run.path), service, progress)
            if isinstance(lab, PhysicalLab):
                lab.require_kept()
            lab_file = run.path / "lab.json"
            known = json.loads(lab_file.read_text()) | {"processor_share": round(progress.processor_share, 3)}
            lab_file.write_text(json.dumps(known, indent=1) + "\n")

    return play


def check_lab(options: Options, folder: Path, terminal: TextIO) -> None:
    """Build what the lab of `options` needs, start it once and send a ping through it; logs go to `folder`.

    Raises whatever is wrong with the lab, with one line that says what to do.
    """
    described = _machines(options)
    console = console_of(terminal)
    if options.lab == "sim":
        with ended_by_signals(), steps(console) as step:
            simulated.check(options, step)
        return
    with ended_by_signals(), steps(console) as step:
        make_lab = _lab_maker(options, described, step, console)
    with ended_by_signals(), make_lab(folder) as lab:
        lab.client.run(["ping", "-c", "1", "-W", "5", lab.addresses.server])


def _machines(options: Options) -> LabFile | None:
    """Return the lab file of a physical lab; its addresses must have the requested IP version, if any.

    Raises LabFileError.
    """
    if options.lab not in PHYSICAL:
        return None
    file = read_lab_file(options.lab_file, options.lab)
    if options.ip_version not in (None, file.ip_version):
        raise LabFileError(
            f"--ip-version: the addresses of {options.lab_file} are IPv{file.ip_version}; omit it, or give every "
            f"host there an IPv{options.ip_version} address",
            code="conflict",
        )
    return file


def _lab_maker(
    options: Options, machines: LabFile | None, step: Callable[[str], ProgressCallback], console: Console
) -> Callable[[Path], LabFactory]:
    rates = [rate for rate in (options.rate_down_bps, options.rate_up_bps) if rate]
    steps = [step.rate_bps for step in (*options.rate_steps, *options.rate_up_steps)]
    return lab_maker(
        machines, rates, lambda text: console.print(Text(text)), steps_bps=steps, sources=options.sources,
        version=options.ip_version or 4, uplink=options.uplink, step=step,
    )  # fmt: skip
