# SPDX-License-Identifier: Apache-2.0
"""The check of a new kernel in one boot: its congestion controls, its qdiscs, and Prague's signals."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path

from sojourn.hardware.confine.confinement import ConfinementError, Jail
from sojourn.hardware.images.guest import Guest
from sojourn.hardware.kernel_build.kernel import Kernel
from sojourn.hardware.machine.cache import BuildError
from sojourn.hardware.node import MEMORY, node_command
from sojourn.hardware.simulation import memory_bytes

CONGESTION_CONTROLS = ("reno", "cubic", "dctcp", "bbr", "prague", "prague-2020", "reno-sce", "dctcp-sce", "cubic-sce")
QDISCS = ("dualpi2",)
TIMEOUT_S = 30.0
_CONSOLE_END = 300
# A flow over loopback, its own packets counted; AE, CWR and ECE in a SYN ask for AccECN (RFC 9768).
JOB = r"""#!/bin/sh
set -e
echo "controls: $(cat /proc/sys/net/ipv4/tcp_available_congestion_control)"
# The sysctl takes only the name of a queue that is registered.
for kind in QDISCS; do
    echo $kind >/proc/sys/net/core/default_qdisc 2>/dev/null || true
    known="$known $(cat /proc/sys/net/core/default_qdisc)"
done
echo "qdiscs:$known"
echo 3 >/proc/sys/net/ipv4/tcp_ecn
iperf3 -s -1 --forceflush >/tmp/server &
tcpdump -i lo -s 96 -U --immediate-mode -w /tmp/wire 2>/tmp/dump &
until grep -q listening /tmp/server && grep -q listening /tmp/dump; do sleep 0.02; done
iperf3 -c 127.0.0.1 -C CONTROL -n 1M --cport 40001 >/tmp/client || { cat /tmp/client >&2; exit 1; }
count() { tcpdump -nr /tmp/wire "tcp src port 40001 and $1" 2>/dev/null | wc -l; }
until [ "$(count 'tcp[tcpflags] & tcp-fin != 0')" -gt 0 ]; do sleep 0.02; done
echo "accecn_syn: $(count 'tcp[12] & 1 = 1 and tcp[13] = 0xc2')"
echo "data: $(count 'greater 1000')"
echo "data_ect1: $(count 'greater 1000 and ip[1] & 3 = 1')"
# Over ssh the job lasts as long as anything holds its output.
kill $!
"""


def self_check(
    kernel: Kernel,
    guest: Guest,
    control: str = "prague",
    *,
    qdiscs: Collection[str] = (),
    controls: Collection[str] = (),
) -> None:
    """Boot a node once, send 1 MiB with `control` over its loopback and judge its report.

    It must have `qdiscs` and congestion `controls` in addition to Sojourn's.

    Raises:
        BuildError: the kernel does not boot or end within TIMEOUT_S, or a feature that the labs need does not work.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "run").write_text(JOB.replace("CONTROL", control).replace("QDISCS", " ".join((*QDISCS, *qdiscs))))
        (folder / "run").chmod(0o755)
        words = node_command(name="check", interfaces=(), extra=("sj_job=job/.",))
        jail = Jail({"linux": kernel.linux, "root": guest.root}, {"job": folder}, memory_bytes(MEMORY))
        try:
            with jail:
                console = subprocess.run(
                    jail.argv(words, {"TMPDIR": "memory"}), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False,
                ).stdout  # fmt: skip
        except subprocess.TimeoutExpired as late:
            last_words = _end(late.stdout or b"") or "nothing"
            raise BuildError(
                f"the built kernel's check did not end within {TIMEOUT_S:g} s; console: {last_words}", code="no-answer"
            ) from late
        except ConfinementError as refused:
            raise BuildError(str(refused), code=refused.code) from refused
        out, err = ((folder / file).read_text() if (folder / file).exists() else "" for file in ("out", "err"))
    if "qdiscs: " not in out:
        raise BuildError(f"the built kernel does not boot: {_end(console)!r}", code="not-started")
    judge(out, err, qdiscs, controls)


def judge(out: str, err: str = "", qdiscs: Collection[str] = (), controls: Collection[str] = ()) -> None:
    """Raise BuildError unless the job's output (`name: value` lines) shows every feature that the labs need."""
    values = dict(re.findall(r"^(\w+): ?(.*)$", out, re.MULTILINE))
    wanted = {"controls": (*CONGESTION_CONTROLS, *controls), "qdiscs": (*QDISCS, *qdiscs)}
    missing = [name for what, names in wanted.items() for name in names if name not in values.get(what, "").split()]
    if missing:
        raise BuildError(f"missing in the built kernel: {', '.join(missing)}", code="missing")
    if "data_ect1" not in values:
        raise BuildError(f"a TCP Prague flow fails on the built kernel: {err.strip()[-_CONSOLE_END:]!r}", code="failed")
    syn, data, ect1 = (int(values[name]) for name in ("accecn_syn", "data", "data_ect1"))
    if not syn:
        raise BuildError(
            "the built kernel's Prague does not negotiate AccECN: no SYN with AE, CWR and ECE", code="unsupported"
        )
    if not data or ect1 != data:
        raise BuildError(
            f"the built kernel's Prague sends only {ect1} of {data} data packets as ECT(1)", code="unsupported"
        )


def _end(console: bytes) -> str:
    return console.decode(errors="replace").strip()[-_CONSOLE_END:]
