# SPDX-License-Identifier: Apache-2.0
"""A bulk flow between the two commands of a user's program, measured as every other flow."""

from __future__ import annotations

import base64
import os
import re
import shlex
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from sojourn.hardware.machine.place import CommandError, Place
from sojourn.hardware.machine.process import Process
from sojourn.traffic import ports
from sojourn.traffic.contender import Contender, set_ecn
from sojourn.traffic.iperf3 import BulkError, BulkFlow
from sojourn.traffic.user_program import PREFIX, UserProgram

End = Literal["client", "server"]
KEPT_BYTES = 1 << 20
"""Bytes at the beginning of a program's output that are kept; of the rest, the end."""
_POLL_S = 0.02
_OPEN_S, _DATA_S = 10.0, 10.0
#: From SIGTERM until SIGKILL.
_GRACE_S = 3.0
_CHUNK = 1 << 16
"""Bytes of the end that are kept."""
_LAST_LINES = 3
#: The first line of its output, of the shell that becomes the program: the process group that ends it.
_GROUP = re.compile(rb"\Asojourn-group (\d+)\n")
_BEGIN = 'echo "sojourn-group $$"; cd "$0" && exec "$@" 2>&1'
#: UDP, or TCP with payload: neither a connection's handshake nor its end (pcap-filter(7)); IPv6 without extension
#: headers.
_DATA = (
    "dst host {0} and port {1} and (udp"
    " or (ip and tcp and ip[2:2] - ((ip[0] & 0xf) << 2) - ((tcp[12] & 0xf0) >> 2) != 0)"
    " or (ip6 and ip6[6] == 6 and ip6[4:2] - ((ip6[52] & 0xf0) >> 2) != 0))"
)


class _Output:
    """What a program writes: the first KEPT_BYTES and the end are kept; all is read, so that it never waits."""

    def __init__(self, process: Process, file: Path) -> None:
        self.group: int | None = None
        self.begun = threading.Event()
        self._pipe = process.popen.stdout
        self._file = file
        self._last = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._pipe
        first, kept, dropped = b"", 0, 0
        with self._file.open("wb") as out, suppress(OSError, ValueError):
            while chunk := os.read(self._pipe.fileno(), _CHUNK):
                if self.group is None:
                    first += chunk
                    if not (found := _GROUP.match(first)):
                        continue
                    self.group, chunk = int(found[1]), first[found.end() :]
                    self.begun.set()
                self._last = (self._last + chunk)[-_CHUNK:]
                out.write(chunk[: KEPT_BYTES - kept])
                out.flush()
                dropped += max(0, len(chunk) - (KEPT_BYTES - kept))
                kept = min(KEPT_BYTES, kept + len(chunk))
            if dropped:
                end = self._last[-dropped:]
                out.write(b"\n[%d bytes are not kept; the last %d:]\n" % (dropped - len(end), len(end)) + end)
        self.begun.set()

    def last_lines(self) -> str:
        """Return the last lines, on one."""
        said = self._last.decode(errors="replace").splitlines()
        return " | ".join([line for line in said if line.strip()][-_LAST_LINES:]) or "no output"

    def close(self) -> None:
        """Wait until all is written; what another process group still holds open is abandoned."""
        self._thread.join(1)


class _Running:
    """One end of a program."""

    def __init__(self, end: End, place: Place, folder: str, command: list[str], file: Path) -> None:
        self.end, self.place, self._command = end, place, command
        self.process = Process.start(place, ["setsid", "-w", "sh", "-c", _BEGIN, folder, *command], stdout="pipe")
        self.output = _Output(self.process, file)

    @property
    def failure(self) -> str | None:
        """Why it has ended, if it has."""
        if (code := self.process.popen.poll()) is None:
            return None
        self.output.close()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        return f"its {self.end} ({shlex.join(self._command)}) {how}: {self.output.last_lines()}"

    def stop(self) -> None:
        """End its process group: SIGTERM, after a while SIGKILL."""
        self.output.begun.wait(_GRACE_S)
        if self.process.alive():
            self._signal("TERM")
            deadline = time.monotonic() + _GRACE_S
            while self.process.alive() and time.monotonic() < deadline:
                time.sleep(_POLL_S)
        self._signal("KILL")  # also what the program has started and left
        self.process.stop(signal.SIGKILL)
        self.output.close()

    def _signal(self, name: str) -> None:
        if self.output.group is not None:
            with suppress(CommandError):
                self.place.run(["kill", "-s", name, "--", f"-{self.output.group}"], check=False)


class ProgramFlow(BulkFlow):
    """The flow of a user's program; `directory` receives what both ends print. `up`: away from the client's side."""

    def __init__(
        self, program: UserProgram, sender: Place, receiver: Place, addresses: tuple[str, str], directory: Path, *,
        port: int, number: int, up: bool = False,
    ) -> None:  # fmt: skip
        """`addresses` are those of sender and receiver; `number` is that of the flow in its run."""
        cc = Contender(program.name, "", program.tcp_ecn)
        super().__init__(
            sender, receiver, addresses[1], cc, directory, port=port, sender_port=ports.FIRST_SENDER + number, up=up
        )
        self.program, self.sender_address = program, addresses[0]
        self._stem = directory / f"program-{program.name.removeprefix(PREFIX)}-{number}"
        serves = program.sender == "server"
        self._places: dict[End, Place] = {
            "server": sender if serves else receiver, "client": receiver if serves else sender
        }  # fmt: skip
        self._address = addresses[0] if serves else addresses[1]
        self._ends: list[_Running] = []
        self._first: Process | None = None

    def launch(self, duration_s: float = 3600) -> None:
        """Start the server, wait until it has opened its port, and start the client. Raises BulkError, ProcessError."""
        set_ecn(self.contender, self.sender, self.receiver)
        values: dict[str, str | int] = {
            "address": self._address, "port": self.port, "from_port": self.sender_port, "seconds": round(duration_s)
        }  # fmt: skip
        self.start_s = time.time()
        try:
            self._begin("server", values)
            self._await_port()
            self._first = first_packet(self.receiver, self.receiver_address, self.port)
            self.start_s = time.time()
            self._begin("client", values)
        except BaseException:
            self._end()
            raise

    def _begin(self, end: End, values: dict[str, str | int]) -> None:
        place = self._places[end]
        folder = installed(self.program, place)
        file = self._stem.with_name(f"{self._stem.name}.{end}.log")
        self._ends.append(_Running(end, place, folder, self.program.command(end, values), file))

    def _await_port(self) -> None:
        query = ["ss", "-Htuln", "sport", "=", f":{self.port}"]
        deadline = time.monotonic() + _OPEN_S
        while not self._places["server"].run(query).strip():
            self._require_alive()
            if time.monotonic() > deadline:
                raise BulkError(
                    f"{self._who}: its server does not open TCP or UDP port {self.port} within {_OPEN_S:g} s: "
                    f"{self._ends[0].output.last_lines()}"
                )
            time.sleep(_POLL_S)

    def _await_connection(self) -> None:
        assert self._first
        deadline = time.monotonic() + _DATA_S
        while self._first.alive():
            self._require_alive()
            if time.monotonic() > deadline:
                raise BulkError(
                    f"{self._who}: no data to or from port {self.port} at {self.receiver.name} within {_DATA_S:g} s: "
                    + "; ".join(f"{it.end}: {it.output.last_lines()}" for it in self._ends)
                )
            time.sleep(_POLL_S)
        if self._first.popen.wait():
            raise BulkError(f"{self._who}: the capture of its first packet ended: {self._first.log_tail()}")

    def _require_alive(self) -> None:
        if self.failure:
            raise BulkError(self.failure)

    @property
    def _who(self) -> str:
        return f"the program {self.program.name.removeprefix(PREFIX)}"

    def alive(self) -> bool:
        """Whether both ends still run."""
        return bool(self._ends) and all(it.process.alive() for it in self._ends)

    @property
    def failure(self) -> str | None:
        """Why it has ended, with its last output; None while it runs."""
        why = next(filter(None, (it.failure for it in self._ends)), None)
        return f"{self._who}: {why}" if why else None if self._ends else f"{self._who} does not run"

    def stop(self) -> dict[str, Any]:
        """End both ends, the client first. Raises BulkError if one had ended by itself."""
        failure = self.failure
        self._end()
        self.end_s = time.time()
        if failure:
            raise BulkError(failure)
        return {}

    def record(self, phase: str, result: dict[str, Any]) -> dict[str, Any]:
        """Return the flow's entry in bulk.json."""
        return {
            "contender": self.program.name,
            "phase": phase,
            "up": self.up,
            "start": self.start_s,
            "end": self.end_s,
            "sender": self.sender_address,
            "receiver": self.receiver_address,
            "server_port": self.port,
            "serves": self.program.sender == "server",
            "program": self.program.digest,
        }

    def _end(self) -> None:
        if self._first is not None:
            self._first.stop(signal.SIGTERM)
        for running in reversed(self._ends):
            running.stop()


def first_packet(place: Place, address: str, port: int) -> Process:
    """Start a program at a place that ends with the first packet of data to `address`, from or to `port`.

    Raises ProcessError.
    """
    wanted = _DATA.format(address, port)
    if place.run(["sh", "-c", "command -v dumpcap"], check=False):
        command = ["dumpcap", "-q", "-i", "any", "-c", "1", "-s", "128", "-w", "-", "-f", wanted]
        return Process.start(place, command, ready=r"^File: ")
    command = ["tcpdump", "-n", "-i", "any", "-c", "1", "-s", "128", wanted]
    return Process.start(place, command, ready="listening on ")


def installed(program: UserProgram, place: Place) -> str:
    """Return the folder with the program's files at a place; on another host, copy them to the user's home first.

    Raises CommandError.
    """
    if not place.remote:
        return str(program.folder)
    # Nobody else can write there, unlike in /tmp: what is found there runs, usually as root.
    kept = f".cache/sojourn/program-{program.digest}"
    home, *complete = place.run(["sh", "-c", f"cd; pwd; ls {kept}/.complete 2>/dev/null; true"]).splitlines()
    folder = f"{home}/{kept}"
    if complete:
        return folder
    for name, seal in program.files.items():
        there = shlex.quote(f"{folder}/{name}")
        mode = 755 if seal.endswith("+x") else 644
        write = f'mkdir -p "$(dirname {there})" && base64 -d >{there} && chmod {mode} {there}'
        content = base64.b64encode((program.folder / name).read_bytes()).decode()
        place.run(["sh", "-c", write], input=content, timeout=300)
    place.run(["sh", "-c", f"cd && mkdir -p {kept} && touch {kept}/.complete"])
    return folder
