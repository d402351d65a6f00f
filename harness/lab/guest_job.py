# SPDX-License-Identifier: Apache-2.0
"""The job of a simulated machine, as JSON, and the paths of shared files on host and guest."""

from __future__ import annotations

import fcntl
import json
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sojourn.hardware.confine import decoder

if TYPE_CHECKING:
    from sojourn.apps.base import Service
    from sojourn.harness.options.model import Options

EVIDENCE, CACHE, PACKAGES = Path("/evidence"), Path("/cache"), Path("/sojourn")
"""The guest's paths of the run's directory, the cache and the Python packages."""
SOURCES = PACKAGES / "sojourn"
"""What the host's CHECKOUT is in the guest."""
NEWS, ERROR, VERSIONS = "news", "error", "versions"
"""Files of the job's folder: events, one per line; why the run ended early; versions for the manifest, JSON."""
JOB = "job.json"


def write_job(job: Path, options: Options, service: Service, folders: Mapping[Path, Path]) -> None:
    """Write a run's job into its folder; `folders` maps folders of the host to those of the guest.

    The job has no path of the host, and nothing about where, how often or by whom the run is executed.
    """
    film = {"prepared": service.prepared, "encoder": service.encoder.version}
    known = {"options": options.for_guest(EVIDENCE).record(), **film}
    write(job, known, folders)


def read_job(job: Path) -> tuple[Options, Service]:
    """Return the options of the run and its service, with the paths of the guest."""
    from sojourn.apps import SERVICES
    from sojourn.apps.standins.clip import Encoder
    from sojourn.harness.options.model import Options

    known = read(job)
    options = Options.model_validate_json(json.dumps(known["options"]))
    service = SERVICES[options.service].from_options(options)
    service.take(known["prepared"])
    service.encoder = Encoder(version=known["encoder"])  # by which films are found in the cache
    return options, service


def write(job: Path, known: Mapping[str, Any], folders: Mapping[Path, Path]) -> None:
    """Write what is `known` of a job into its folder; `folders` maps folders of the host to those of the guest."""

    def in_guest(path: Path) -> str:
        for host, guest in folders.items():
            if path.is_relative_to(host):
                return str(guest / path.relative_to(host))
        return str(path)

    (job / JOB).write_text(json.dumps(known, default=in_guest, sort_keys=True, indent=1) + "\n")


def read(job: Path) -> dict[str, Any]:
    """Return what `write` wrote."""
    known: dict[str, Any] = json.loads((job / JOB).read_text())
    return known


def work(job: Path, do: Callable[[Path], None]) -> int:
    """Do a job inside the machine and return the exit code; what stops it is one line in ERROR."""
    decoder.confined_already()
    try:
        do(job)
    except (RuntimeError, OSError) as failed:
        (job / ERROR).write_text(f"{type(failed).__name__}: {failed}")
        return 1
    return 0


#: When experiments begin at the earliest, s after the start of the machine, which is ready long before.
_BEGIN_S = 1
#: Of <linux/random.h>: take the generator's next numbers of the seed now.
_RNDRESEEDCRNG = 0x5207


def begin(seed: int) -> None:
    """Wait for the time at which the experiment begins; the seed varies it, and with it the phase of player and film.

    The time counts from the machine's start, and what the kernel counted before is made equal: what a program reads
    and imports before it begins moves the clock, and a new module must not change what follows.
    """
    begin_ns = round((_BEGIN_S + random.Random(f"start {seed}").uniform(0, 1)) * 1e9)
    now_ns = page_ns = time.monotonic_ns()
    while now_ns == page_ns:  # one reading of 64 moves the clock; the next 63 do not
        now_ns = time.monotonic_ns()
    if now_ns > begin_ns:
        raise RuntimeError(f"the machine was ready {(now_ns - begin_ns) / 1e9:.3f} s after it should have begun")
    time.sleep((begin_ns - now_ns - 0.5) / 1e9)  # rounded up to whole nanoseconds
    with open("/dev/urandom", "rb") as generator:
        fcntl.ioctl(generator, _RNDRESEEDCRNG)
