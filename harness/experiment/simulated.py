# SPDX-License-Identifier: Apache-2.0
"""An experiment in a simulated machine, seen from outside: what it is given, what it tells, and how it ends."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import psutil
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from sojourn.apps.second import second_service
from sojourn.apps.standins.clip import SEGMENT_SECONDS, Clip
from sojourn.hardware import simulation
from sojourn.hardware.build_tool import Tools
from sojourn.hardware.confine.confinement import ConfinementError, confinement
from sojourn.hardware.images.desktop import EXTRAS, Desktop, ensure_desktop
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.machine.files import CHECKOUT, log_file, read_foreign
from sojourn.hardware.machine.messages import first_wrong, printable
from sojourn.hardware.machine.scratch import scratch_folder
from sojourn.hardware.simulation import SimulationError
from sojourn.harness.experiment.guest_job import CACHE, ERROR, EVIDENCE, NEWS, PACKAGES, SOURCES, VERSIONS, write_job
from sojourn.harness.experiment.progress import ExperimentProgress
from sojourn.harness.store.manifest import Text
from sojourn.harness.terminal import Tell, named

if TYPE_CHECKING:
    from sojourn.apps.base import Service
    from sojourn.harness.options.model import Options
    from sojourn.harness.store.runs import RunDirectory

SYSTEM_CALLS = "system calls"
"""How the kernel takes those of its programs, in a manifest's versions: by seccomp or by ptrace."""
#: What a machine with browsers may come to use.
MEMORY = "4G"

#: The inside tells something twice a simulated second while it records; its set-up takes longest.
_SILENCE_S = 300.0
#: Bytes of news that are read at a look, and that a line may have; that there may be of a run: a day has 40 MB.
_MOST_NEWS, _ALL_NEWS = 64 << 10, 256 << 20
#: Characters of what the inside says stopped it, and of what is no news.
_LONGEST_ERROR, _LONGEST = 2000, 80


def _shown(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


_Line = Annotated[str, Field(max_length=1000), AfterValidator(_shown)]
#: What a display has room for; none of it is infinite.
_Number = Annotated[float, Field(ge=-1e15, le=1e15)]
_Seconds = Annotated[float, Field(ge=0, le=1e9)]


class _Known(TypedDict, total=False):
    """What a display shows (`sojourn.harness.experiment.progress.Sample`), as a machine tells it."""

    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]

    victim_bps: _Number | None
    contender_bps: _Number | None
    quality: Annotated[str, Field(max_length=100), AfterValidator(printable)] | None
    playing: bool | None
    buffer_s: _Number | None
    stalls: Annotated[int, Field(ge=0, lt=1 << 53)]


_NewsLine = (
    tuple[_Seconds, Literal["say"], _Line]
    | tuple[_Seconds, Literal["phase"], Annotated[int, Field(ge=0)]]
    | tuple[_Seconds, Literal["update"], _Known]
)
_NEWS: TypeAdapter[_NewsLine] = TypeAdapter(_NewsLine)
_VERSIONS = TypeAdapter(Annotated[dict[Text, Text], Field(max_length=1000)])
#: Folders of the cache that no machine sees.
_OURS = {
    *("apt", "board-kernel", "bulk", "confine", "desktop", "guest", "image", "image-apt", "kernel", "rust", "sources"),
    "venv",
}
#: Looks come several a second: what is longer, we were stopped ourselves, and the machine with us.
_LOOK_S = 1.0
#: busybox is not setuid: a setuid mount of a root whose owner has no number here would be nobody's.
#: A recorder's buffers are given back and taken again for each frame where malloc has its way.
_PREPARED = f"""#!/bin/sh
set -e
busybox mount -t hostfs -o evidence/. none {EVIDENCE}
busybox mount -t hostfs -o ro,cache/. none {CACHE}
busybox mount -t hostfs -o ro,sources/. none {PACKAGES}
echo 1 >/proc/sys/vm/overcommit_memory
export SOJOURN_CACHE={CACHE} XDG_CACHE_HOME=/tmp/cache LANG=C.UTF-8
export PYTHONPATH={PACKAGES} PYTHONDONTWRITEBYTECODE=1
export {simulation.NO_RDRAND}
export MALLOC_MMAP_THRESHOLD_=1000000000 MALLOC_TRIM_THRESHOLD_=2000000000
cd /tmp
"""


@dataclass(frozen=True)
class Machine:
    """What simulated machines are made of."""

    kernel: Kernel
    desktop: Desktop
    memory: str = MEMORY
    untrusted: bool = False
    """Whether pages, scripts or films that are not ours run in it (see `sojourn.hardware.node.node_command`)."""

    @property
    def bytes(self) -> int:
        """How much memory it may come to use."""
        return simulation.memory_bytes(self.memory)

    @property
    def versions(self) -> dict[str, str]:
        """For the manifest; whoever has the same ones makes the same bytes."""
        return {
            "kernel source": self.kernel.source,
            "kernel build": self.kernel.digest,
            "guest": self.desktop.digest,
            "sources": self.desktop.sources_digest,
            SYSTEM_CALLS: "ptrace" if self.untrusted else "seccomp",
            **{f"guest {name}": text for name, text in self.desktop.versions.items()},
        }

    @property
    def digest(self) -> str:
        """Names all that decides what a run in it gives but its film: kernel, guest and this project's sources."""
        parts = (self.kernel.digest, self.kernel.source, self.desktop.digest, self.desktop.sources_digest)
        return cache.digest((str(n), text.encode()) for n, text in enumerate(parts))


class SimulatedError(RuntimeError):
    """The experiment did not reach its end; one line that says why."""


def prepare(options: Options, service: Service, step: Callable[[str], Tell]) -> Machine:
    """Make what such a run needs and the cache lacks, all at once: downloads beside compiling; return its machine.

    Raises BuildError, also where nothing confines the machine; ServiceError.
    """
    try:
        confinement()
    except ConfinementError as refused:
        raise BuildError(str(refused)) from refused
    kernel, desktop, *_films = all_at_once(
        lambda: ensure_kernel(options.kernel_source, named(step("kernel"))),
        lambda: ensure_desktop(_extras(options), named(step("guest with browser"))),
        lambda: service.prepare(step("film")),
        *([lambda: second_service(options).prepare(step("second film"))] if options.second_video else []),
    )
    return Machine(kernel, desktop, untrusted=untrusted(options))


def untrusted(options: Options) -> bool:
    """Whether a page, a script or a film of the user's, which may be a stranger's, is let into the machine."""
    return bool(options.url or options.script or options.clip)


def machine_of(options: Options, step: Callable[[str], Tell] | None = None) -> Machine:
    """Return what such a run needs but for its film, built if need be. Raises BuildError."""
    kernel = ensure_kernel(options.kernel_source, step and named(step("kernel")))
    desktop = ensure_desktop(_extras(options), step and named(step("guest with browser")))
    return Machine(kernel, desktop, untrusted=untrusted(options))


def check(options: Options, step: Callable[[str], Tell]) -> None:
    """Build what the machine of such a run lacks, start it once and import all that a run needs in it.

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
            timeout=_SILENCE_S,
        )
    finally:
        shutil.rmtree(job, ignore_errors=True)


def films(options: Options, service: Service) -> dict[str, str]:
    """Name the films that a prepared run shows, by what each is called in the manifest."""
    shown = {"film": service.clip}
    if options.second_video:
        (second := second_service(options)).prepare()
        shown["second film"] = second.clip
    return {name: film_digest(clip) for name, clip in shown.items() if clip}


def film_digest(clip: Clip) -> str:
    """Names what an origin serves: the manifest, and the segments of one round of the film, of which all are copies."""
    last = clip.frames // clip.fps // SEGMENT_SECONDS
    round_ = (path for path in clip.folder.glob("*/*.m4s") if int(path.stem) <= last)
    files = (clip.manifest, *clip.folder.glob("*/init.mp4"), *round_)
    return cache.digest((str(path.relative_to(clip.folder)), path.read_bytes()) for path in files)


def _extras(options: Options) -> list[str]:
    return [name for name in EXTRAS if name in (options.recorder, options.driver)]


class _Places:
    """How many machines this process runs at once: as many as memory was free for when the first of them began."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.taken = self.most = 0


_places = _Places()


@contextmanager
def place(machine: Machine) -> Iterator[None]:
    """Wait until the memory that a machine may come to use is left by those beside it in this process."""
    with _places.changed:
        _places.changed.wait_for(lambda: _places.taken < max(1, _places.most))
        if not _places.taken:
            _places.most = simulation.fitting(machine.memory)
        _places.taken += 1
    try:
        yield
    finally:
        with _places.changed:
            _places.taken -= 1
            _places.changed.notify()


def start(
    machine: Machine,
    job: Path,
    command: str,
    *,
    evidence: Path,
    seed: int = 1,
    watch: Callable[[], None] = lambda: None,
    timeout: float | None = None,
) -> None:
    """Run a shell command in a machine to its end, `timeout` s at most of ours.

    Raises SimulatedError with what the inside says stopped it, or how the machine ended, and what `watch` raises.
    """
    (job / "run").write_text(_PREPARED + command + "\n")
    (job / "run").chmod(0o755)
    try:
        simulation.run(
            machine.kernel, machine.desktop, job, seed=seed, memory=machine.memory, watch=watch,
            start_ns=simulation.DATE_NS, timeout=timeout, untrusted=machine.untrusted,
            mounts={"evidence": evidence}, reads={"sources": machine.desktop.sources, **_lent()},
        )  # fmt: skip
    except SimulationError as failed:
        said = printable(simulation.last_words(job / ERROR)[-_LONGEST_ERROR:])
        raise SimulatedError(said or str(failed).replace(f"{job}: ", "")) from failed


def _lent() -> dict[str, Path]:
    """What a machine sees of the cache: films, players, certificates; not what makes machines, nor our environment."""
    folders = (path for path in cache.root().iterdir() if path.is_dir() and path.name not in _OURS)
    folders = (path for path in folders if "=" not in path.name)  # at which the launcher parts NAME=PATH; none of ours
    return {f"cache/{path.name}": path for path in sorted(folders)}


def all_at_once(*makers: Callable[[], Any]) -> list[Any]:
    """Call all at once in threads and return what they gave, in order.

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
    run: RunDirectory,
    progress: ExperimentProgress,
    clock: SimulatedClock,
    machine: Machine,
) -> None:
    """Record one run of a prepared `service` into `run`, in a machine of its own; scoring comes after.

    Args:
        clock: is set to the simulated time as the machine tells it, for the display.

    Raises:
        SimulatedError: the experiment ended early, by what it says itself or because the machine did.
        StoreError: the disk is nearly full.
    """
    known = machine.versions | films(options, service) | {"confined by": confinement()}
    run.add_versions(known)
    job = scratch_folder("-job")
    try:
        write_job(job, options, service, {run.path: EVIDENCE, cache.root(): CACHE, CHECKOUT: SOURCES})
        with place(machine):
            news = _News(job / NEWS, progress, clock)

            def watch() -> None:
                run.check_space()
                news.pass_on()

            start(
                machine, job, "exec python3 -m sojourn.harness.experiment.guest_main /job",
                evidence=run.path, seed=options.seed, watch=watch,
            )  # fmt: skip
            news.pass_on()
    except BaseException:
        with suppress(OSError):  # a full disk is what may have ended it
            for name in simulation.SAID:
                if said := simulation.last_words(job / name):
                    log_file(run.path, f"machine-{name}").write_text(said)
            with suppress(SimulatedError):
                _add_versions(run, job, known)
        raise
    else:
        _add_versions(run, job, known)
    finally:
        shutil.rmtree(job, ignore_errors=True)


def _add_versions(run: RunDirectory, job: Path, known: Mapping[str, str]) -> None:
    """Put what the inside has told of its programs into the manifest, next to what is `known` of its machine.

    Raises SimulatedError.
    """
    if told := simulation.last_words(job / VERSIONS):
        try:
            run.add_versions({**_VERSIONS.validate_json(told), **known})
        except ValidationError as wrong:
            raise SimulatedError(f"{VERSIONS}: {first_wrong(wrong)}; the machine wrote no versions there") from wrong


def _more(file: Path, start: int) -> bytes:
    """Return what a machine has written to a file since `start`, at most _MOST_NEWS bytes.

    Raises SimulatedError for what is no file.
    """
    try:
        return read_foreign(file, _MOST_NEWS, start)
    except BlockingIOError:  # a lease of the machine's, which silence ends
        return b""
    except OSError as error:
        raise SimulatedError(f"{file.name}: {error.strerror}; the simulated machine wrote no file there") from error


class SimulatedClock:
    """Seconds of simulated time, as last told."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class _News:
    """Reads what the inside tells, and passes it on to the display."""

    def __init__(self, file: Path, progress: ExperimentProgress, clock: SimulatedClock) -> None:
        self._file, self._progress, self._clock = file, progress, clock
        self._phases = len(progress.phases)
        self._read, self._rest, self._silent_s, self._looked = 0, b"", 0.0, time.monotonic()

    def pass_on(self) -> None:
        """Pass on what is new. Raises SimulatedError when the machine has told nothing for long."""
        now = time.monotonic()
        self._silent_s += min(now - self._looked, _LOOK_S)
        self._looked = now
        with suppress(FileNotFoundError):
            if self._file.lstat().st_size > _ALL_NEWS:
                raise SimulatedError(f"{self._file.name}: the simulated machine tells more than {_ALL_NEWS >> 20} MiB")
        if fresh := _more(self._file, self._read):
            self._read += len(fresh)
            *lines, self._rest = (self._rest + fresh).split(b"\n")
            for line in lines:
                self._silent_s = 0.0
                self._tell(line)
            if len(self._rest) > _MOST_NEWS:
                raise SimulatedError(f"{self._file.name}: the simulated machine tells a line without end")
        if self._silent_s > _SILENCE_S:
            raise SimulatedError(f"the simulated machine hangs: it has told nothing for {self._silent_s:.0f} s")

    def _tell(self, line: bytes) -> None:
        """Pass on a line. Raises SimulatedError for one that says nothing that can be shown."""
        try:
            now, _, what = _NEWS.validate_json(line)
        except ValidationError as wrong:
            raise SimulatedError(f"{self._file.name}: no news: {line[:_LONGEST]!r}") from wrong
        self._clock.now = now
        if isinstance(what, dict):
            self._progress.update(**what)
        elif isinstance(what, str):
            self._progress.say(what)
        elif what < self._phases:
            self._progress.phase(what)
        else:
            raise SimulatedError(f"{self._file.name}: no news: phase {what} of {self._phases}")
