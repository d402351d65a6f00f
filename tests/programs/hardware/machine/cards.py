# SPDX-License-Identifier: Apache-2.0
"""A stand-in for a router with network cards: its files in /sys and /proc are those of a folder."""

from __future__ import annotations

from pathlib import Path

from sojourn.hardware.machine.place import Place

CAUSES = ("rx_errors", "rx_missed_errors", "rx_fifo_errors", "tx_errors", "tx_dropped")
#: Every process has a /proc/net of its own, so nothing can be mounted there.
_CAT = """#!/bin/sh
for file; do
    case $file in /proc/net/softnet_stat) file={folder}/softnet_stat ;; esac
    sed '' "$file" || exit
done
"""


def write(folder: Path, speeds: dict[str, str], backlog: int = 0, busy: int = 0, **lost: int) -> Place:
    """Write the counters of a router, and return the place where they are shown; `lost` is of each card."""
    for device, speed in speeds.items():
        (counters := folder / "net" / device / "statistics").mkdir(parents=True, exist_ok=True)
        (folder / "net" / device / "speed").write_text(f"{speed}\n")
        for cause in CAUSES:
            (counters / cause).write_text(f"{lost.get(cause, 0)}\n")
    words = " ".join(["00000000"] * 10)
    processors = f"0000ffff {backlog:08x} 00000003 {words}", f"00000001 00000000 0000000a {words}"
    (folder / "softnet_stat").write_text("\n".join(processors) + "\n")
    ticks = f"{busy} 0 0 900 100 0 0 0 0 0", f"0 0 0 {1000 + busy} 0 0 0 0 0 0"
    (folder / "stat").write_text("cpu  1 2 3\n" + "".join(f"cpu{n} {of}\n" for n, of in enumerate(ticks)))
    (folder / "cat").write_text(_CAT.format(folder=folder))
    (folder / "cat").chmod(0o755)
    shown = {"net": "/sys/class/net", "stat": "/proc/stat"}
    mounts = " && ".join(f"mount --bind {folder / name} {path}" for name, path in shown.items())
    start = f'{mounts} && PATH={folder}:$PATH exec "$@"'
    return Place("router", ("unshare", "--user", "--map-root-user", "--mount", "--", "sh", "-c", start, "sh"))
