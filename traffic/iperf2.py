# SPDX-License-Identifier: Apache-2.0
"""UDP Prague by its authors: `--udp-l4s` of iperf 2 (not iperf3), compiled because Debian's binary lacks it.

Debian's binary accepts the option and sends Not-ECT, so what a build sends decides whether it is used.
"""

from __future__ import annotations

import hashlib
import shlex
import shutil
import socket
import subprocess
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from sojourn.hardware.build_tool import call, compiler
from sojourn.hardware.images.archive import mirrors
from sojourn.hardware.machine import cache
from sojourn.hardware.machine.cache import BuildError
from sojourn.traffic.irtt import TOS

VERSION = "2.2.1+dfsg"
"""Of Debian's source package."""
PAYLOAD = 1444
"""`-l`, bytes. With `--udp-l4s`, iperf sends payloads up to 28 bytes (IPv4 and UDP headers) longer than `-l`."""
_SOURCE = f"pool/main/i/iperf/iperf_{VERSION}.orig.tar.xz"
_SHA256 = "9cbbcb3c8489913871ad1855199a6c03e5d402837c9210b7baf7997aa064cd2c"
_ANSWER_S = 30
# What Sojourn changes: by file, a line and the line that replaces it.
_PATCHES = {
    # Both ends count time from the first packet. Without jitter and without a queue, the receiver's clock minus the
    # sender's is exactly 0, which iperf takes for "no packet yet": the receiver echoes no time, the sender's RTT
    # becomes the age of the flow, and its rate the least. A received time stamp is never 0.
    "prague_cc.cpp": ("    if (m_ts_remote)\n", "    if (m_r_prev_ts)\n"),
    # It polls during the last millisecond before a packet: in simulated time, 1 µs per poll.
    "Client.cpp": ("\tif (ack_timeout > 1000) { // one millisecond\n", "\tif (ack_timeout > 0) {\n"),
}
# Debian's tarball has no service.c (Windows only).
_ABSENT = "src/service.c"
# Time in the machine does not pass while a program computes, so little optimisation will do.
_CONFIGURE = (
    *("--quiet", "--enable-udp-l4s", "--disable-dependency-tracking"),
    *("CFLAGS=-O1", "CXXFLAGS=-O1", "LDFLAGS=-static"),
)


def missing_tools() -> str:
    """Return what is missing on this machine to compile it, empty if nothing."""
    return ", ".join(tool for tool in ("gcc", "g++", "make", "xz") if not shutil.which(tool))


def ensure() -> Path:
    """Return the program, downloaded and compiled now if it is not in the cache. Raises BuildError."""
    if missing := missing_tools():
        raise BuildError(f"not installed: {missing}", code="missing-program")

    def build(scratch: Path) -> None:
        (tree := scratch / "tree").mkdir()
        (archive := tree / "iperf.tar.xz").write_bytes(_source())
        call(["tar", "--extract", f"--file={archive}", f"--directory={tree}", "--strip-components=1"])
        (tree / _ABSENT).touch()
        for name in _PATCHES:
            file = tree / "src" / name
            file.write_text(patched(name, file.read_text()))
        call([str(tree / "configure"), *_CONFIGURE], cwd=tree)
        for folder in ("compat", "src"):
            call(["nice", "make", "--quiet", f"--directory={tree / folder}"])
        check(program := tree / "src/iperf")
        program.rename(scratch / "iperf")
        cache.remove_tree(tree)

    recipe = repr((_SHA256, _PATCHES, _CONFIGURE)).encode()
    digest = cache.digest([("recipe", recipe), ("compiler", compiler().encode())])
    return cache.build_once(cache.root() / "iperf2" / digest, build) / "iperf"


def patched(name: str, text: str) -> str:
    """Return the source file `name` with Sojourn's change. Raises BuildError if its line is not there once."""
    line, ours = _PATCHES[name]
    if text.count(line) != 1:
        raise BuildError(f"iperf {VERSION}: {name} does not have once: {line.strip()}", code="damaged")
    return text.replace(line, ours)


def check(program: Path) -> None:
    """Raise BuildError if the first packet that `program` sends as UDP Prague, on loopback, is not ECT(1)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.setsockopt(socket.IPPROTO_IP, socket.IP_RECVTOS, 1)
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(_ANSWER_S)
        command = shlex.split(sender(f"./{program.name}", "127.0.0.1", receiver.getsockname()[1], 0))
        null = subprocess.DEVNULL
        with subprocess.Popen(command, cwd=program.parent, stdout=null, stderr=null) as running:
            try:
                _, control, _, _ = receiver.recvmsg(1, socket.CMSG_SPACE(1))
            except TimeoutError as late:
                raise BuildError(f"{program}: no packet within {_ANSWER_S} s", code="no-answer") from late
            finally:
                running.kill()
    ecn = next(value[0] for _, kind, value in control if kind == socket.IP_TOS) & 3
    if ecn != TOS["ect1"]:
        name = next(name for name, tos in TOS.items() if tos == ecn)
        raise BuildError(f"{program}: sends {name}, not ect1; it is built without --enable-udp-l4s", code="unsupported")


def sender(program: str, address: str, port: int | str, from_port: int | str) -> str:
    """Return the command line of a flow that sends until it is killed."""
    return (
        # Timers are exact: by default, Linux may delay them by 50 µs, a fifth of the time per packet at 50 Mbit/s.
        f"sh -c 'echo 1 >/proc/self/timerslack_ns; exec {program} -c {address} -u --udp-l4s -p {port} "
        # Above any path here; the default is 1 Mbit/s.
        f"-B 0.0.0.0:{from_port} -l {PAYLOAD} -b 10g -t 86400'"
    )


def _source() -> bytes:
    """Return the source package's tarball from one of the machine's Debian mirrors."""
    reason = "no Debian mirror is configured"
    for mirror in mirrors(call(["apt-get", "indextargets", "--no-release-info"])):
        try:
            with urlopen(f"{mirror.rstrip('/')}/{_SOURCE}", timeout=_ANSWER_S) as answer:
                content: bytes = answer.read()
        except (URLError, OSError) as failed:
            reason = f"{mirror}: {failed}"
            continue
        if hashlib.sha256(content).hexdigest() == _SHA256:
            return content
        reason = f"{mirror}: another file of that name"
    raise BuildError(f"cannot download {_SOURCE}: {reason}", code="no-answer")
