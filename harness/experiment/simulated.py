# SPDX-License-Identifier: Apache-2.0
"""An experiment in a simulated machine, seen from outside: its inputs, its events, and its end."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import psutil
from pydantic import Field, TypeAdapter, ValidationError

from sojourn.apps.second import second_service
from sojourn.apps.standins.clip import Clip, Encoder
from sojourn.apps.standins.origin import ensure_certificate
from sojourn.hardware import simulation
from sojourn.hardware.build_tool import Tools
from sojourn.hardware.confine.confinement import ConfinementError, confinement
from sojourn.hardware.images.desktop import EXTRAS, Desktop, ensure_desktop
from sojourn.hardware.images.guest import in_root
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError, ProgressCallback
from sojourn.hardware.machine.files import CHECKOUT, log_file
from sojourn.hardware.machine.messages import first_wrong
from sojourn.hardware.machine.scratch import scratch_folder
from sojourn.harness.experiment.guest_news import SILENCE_S, GuestNews, SimulatedClock
from sojourn.harness.experiment.progress import ExperimentProgress
from sojourn.harness.lab.guest_job import CACHE, EVIDENCE, NEWS, SOURCES, VERSIONS, write_job
from sojourn.harness.lab.machine import Machine, SimulatedError, memory_slot, start
from sojourn.harness.store.reasons import Text
from sojourn.traffic import user_program
from sojourn.traffic.program_check import require_runnable

if TYPE_CHECKING:
    from sojourn.apps.base import Service
    from sojourn.harness.experiment.recording import RecordedRun
    from sojourn.harness.options.model import Options

_VERSIONS = TypeAdapter(Annotated[dict[Text, Text], Field(max_length=1000)])


def prepare(options: Options, service: Service, step: Callable[[str], ProgressCallback]) -> Machine:
    """Build what is missing in the cache for such a run, concurrently; return its machine.

    Raises BuildError, also if the machine cannot be confined; ServiceError, UserProgramError.
    """
    try:
        confinement()
    except ConfinementError as refused:
        raise BuildError(str(refused), code=refused.code) from refused
    shown = {"film": service, **({"second film": second_service(options)} if options.second_video else {})}

    def desktop_and_films() -> Desktop:
        desktop = _desktop(options, step)
        for film, its_service in shown.items():
            its_service.encoder = encoder(desktop)
            its_service.prepare(step(film))
        return desktop

    kernel, desktop, *_ = all_at_once(
        lambda: ensure_kernel(options.sources, step("kernel")),
        desktop_and_films,
        *([ensure_certificate] if options.responsiveness else []),
    )
    return Machine(kernel, desktop, untrusted=untrusted(options))


def encoder(desktop: Desktop) -> Encoder:
    """Return the userland's ffmpeg: the same on every host, so that the same film is."""
    version = " ".join(f"{name} {it}" for name, it in desktop.versions.items() if re.match("ffmpeg$|libx264-", name))
    return Encoder(tuple(in_root(desktop.root, "usr/bin/ffmpeg")), version)


def _desktop(options: Options, step: Callable[[str], ProgressCallback] | None) -> Desktop:
    desktop = ensure_desktop(_extras(options), step and step("guest with browser"))
    if options.programs:
        require_runnable(options.programs, desktop.root)
    return desktop


def untrusted(options: Options) -> bool:
    """Whether the user's page, script or film, which may come from a third party, runs in the machine."""
    return bool(options.url or options.script or options.clip)


def machine_of(options: Options, step: Callable[[str], ProgressCallback] | None = None) -> Machine:
    """Return what such a run needs except its film, built if necessary. Raises BuildError, UserProgramError."""
    desktop = _desktop(options, step)
    kernel = ensure_kernel(options.sources, step and step("kernel"))
    return Machine(kernel, desktop, untrusted=untrusted(options))


def check(options: Options, step: Callable[[str], ProgressCallback]) -> None:
    """Build what the machine of such a run needs, start it once and import all modules of a run in it.

    Raises BuildError, SimulatedError.
    """
    machine = machine_of(options, step)
    job = scratch_folder("-job")
    try:
        start(
            machine,
            job,
            "exec python3 -c 'import sojourn.harness.experiment.guest_main'",
            evidence=job,
            timeout=SILENCE_S,
        )
    finally:
        shutil.rmtree(job, ignore_errors=True)


def films(options: Options, service: Service) -> dict[str, str]:
    """Return digests of the films that a prepared run shows, by their names in the manifest."""
    shown = {"film": service.clip}
    if options.second_video:
        second = second_service(options)
        second.encoder = service.encoder
        second.prepare()
        shown["second film"] = second.clip
    return {name: film_digest(clip) for name, clip in shown.items() if clip}


def film_digest(clip: Clip) -> str:
    """Return a digest of what an origin serves: the manifest, and the segments of one loop of the film."""
    round_ = (path for path in clip.folder.glob("*/*.m4s") if int(path.stem) <= clip.loop)
    files = (clip.manifest, *clip.folder.glob("*/init.mp4"), *round_)
    return cache.digest((str(path.relative_to(clip.folder)), path.read_bytes()) for path in files)


def _extras(options: Options) -> list[str]:
    return [name for name in EXTRAS if name in (options.recorder, options.driver)]


def all_at_once(*makers: Callable[[], Any]) -> list[Any]:
    """Call all concurrently in threads and return their results, in order.

    What the first that fails raises is raised, and so is what ends the wait; the programs that the others run are
    ended then, and they start no other tool.
    """
    before, tools = set(psutil.Process().children(recursive=True)), Tools()
    with ThreadPoolExecutor(len(makers)) as pool:
        futures = [pool.submit(tools.work, make) for make in makers]
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            tools.end()
            for child in set(psutil.Process().children(recursive=True)) - before:
                with suppress(psutil.NoSuchProcess, ProcessLookupError):
                    if os.getsid(child.pid) == os.getsid(0):  # a machine that runs beside has its own
                        child.terminate()
            raise
    return [future.result() for future in futures]


def record(
    options: Options,
    service: Service,
    run: RecordedRun,
    progress: ExperimentProgress,
    clock: SimulatedClock,
    machine: Machine,
) -> None:
    """Record one run of a prepared `service` to `run`, in its own machine; scoring follows.

    Args:
        clock: is set to the machine's simulated time, for the display.

    Raises:
        SimulatedError: the experiment ended early, by its own error or because the machine ended.
        StoreError: the disk is nearly full.
    """
    known = machine.versions | films(options, service) | {"confined by": confinement()}
    known |= user_program.versions(options.programs)
    run.add_versions(known)
    job = scratch_folder("-job")
    try:
        write_job(job, options, service, {run.path: EVIDENCE, cache.root(): CACHE, CHECKOUT: SOURCES})
        with memory_slot(machine):
            news = GuestNews(job / NEWS, progress, clock)

            def watch() -> None:
                run.check_space()
                news.pass_on()

            start(
                machine, job, "exec python3 -m sojourn.harness.experiment.guest_main /job",
                evidence=run.path, seed=options.seed, watch=watch, programs=options.programs,
            )  # fmt: skip
            news.pass_on()
    except BaseException:
        with suppress(OSError):  # a full disk may have ended it
            for name in simulation.OUTPUTS:
                if said := simulation.last_words(job / name):
                    log_file(run.path, f"machine-{name}").write_text(said)
            with suppress(SimulatedError):
                _add_versions(run, job, known)
        raise
    else:
        _add_versions(run, job, known)
    finally:
        shutil.rmtree(job, ignore_errors=True)


def _add_versions(run: RecordedRun, job: Path, known: Mapping[str, str]) -> None:
    """Add the versions of the machine's programs to the manifest, next to the `known` ones.

    Raises SimulatedError.
    """
    if error := simulation.last_words(job / VERSIONS):
        try:
            run.add_versions({**_VERSIONS.validate_json(error), **known})
        except ValidationError as wrong:
            raise SimulatedError(
                f"{VERSIONS}: {first_wrong(wrong)}; the machine wrote invalid versions", code="damaged"
            ) from wrong
