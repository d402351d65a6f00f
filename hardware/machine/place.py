# SPDX-License-Identifier: Apache-2.0
"""Where a command runs: on this host, in a network namespace, or on an ssh host."""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from sojourn.hardware.machine.errors import CodedError

COMMANDS = logging.getLogger("sojourn.commands")

NETNS = "--net=/run/netns/"
"""Begins the word of a prefix that enters a named network namespace of this host (nsenter)."""
#: Variables that may hold an account (apps/credentials.py). No started program needs them, and one might log them.
ACCOUNT = re.compile(r"SOJOURN_\w+_(?:USER|PASSWORD|COOKIE|STORAGE_STATE)")
#: On Debian, an ordinary user's PATH does not include the folders of ethtool, tc and chrt.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not ACCOUNT.fullmatch(name)},
    "PATH": os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]),
}


class CommandError(CodedError):
    """A command ended with a non-zero exit code, was not found, or took too long."""

    def __init__(self, place: str, command: Sequence[str], returncode: int | None, stderr: str) -> None:
        self.place, self.command, self.returncode, self.stderr = place, list(command), returncode, stderr
        reason = stderr.strip() or (f"exit code {returncode}" if returncode is not None else "timed out")
        super().__init__(f"{place}: {shlex.join(command)}: {reason}")


@dataclass(frozen=True)
class Place:
    """A name and the argv prefix that runs a command there.

    `prefix` precedes every command (`nsenter … --` or `ssh -F cfg router`). A `remote` place is reached by ssh, which
    needs the command as one shell-quoted argument; its files are on another host.
    """

    name: str
    prefix: tuple[str, ...] = ()
    remote: bool = False

    @property
    def netns(self) -> str:
        """The named network namespace of this host that it is (`ip netns`); empty: none, or a remote place."""
        words = () if self.remote else self.prefix
        return next((word.removeprefix(NETNS) for word in words if word.startswith(NETNS)), "")

    @property
    def namespace_pid(self) -> int | None:
        """The process whose network namespace this place is; None for this host's namespace or a remote place."""
        if self.remote or "--target" not in self.prefix:
            return None
        return int(self.prefix[self.prefix.index("--target") + 1])

    def argv(self, command: Sequence[str]) -> list[str]:
        """Return the argv that runs `command` at this place."""
        return [*self.prefix, shlex.join(command)] if self.remote else [*self.prefix, *command]

    def run(
        self,
        command: Sequence[str],
        *,
        check: bool = True,
        input: str | None = None,
        timeout: float = 30,
    ) -> str:
        """Run `command` to completion and return its stdout.

        `timeout` is in seconds. Raises `CommandError` if the command cannot be started, times out, or (with `check`)
        ends with a non-zero exit code. Command, exit code and output go to the log `sojourn.commands`, which a run
        keeps as its setup.log and teardown.log.
        """
        try:
            done = subprocess.run(
                self.argv(command),
                input=input,
                stdin=subprocess.DEVNULL if input is None else None,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                env=ENVIRONMENT,
            )
        except subprocess.TimeoutExpired as late:
            raise CommandError(self.name, command, None, f"no answer within {timeout:g} s") from late
        except OSError as missing:
            raise CommandError(self.name, command, None, str(missing)) from missing
        COMMANDS.info("%s", _record(self.name, command, input, done))
        if check and done.returncode:
            raise CommandError(self.name, command, done.returncode, done.stderr or done.stdout)
        return done.stdout


def _record(name: str, command: Sequence[str], sent: str | None, done: subprocess.CompletedProcess[str]) -> str:
    lines = [f"[{name}] $ {shlex.join(command)}"]
    lines += [f"  < {line}" for line in (sent or "").splitlines()]
    lines += [f"  {line}" for line in done.stdout.splitlines()]
    lines += [f"  ! {line}" for line in done.stderr.splitlines()]
    if done.returncode:
        lines.append(f"  exit code {done.returncode}")
    return "\n".join(lines)


#: Options of ssh: whatever its configuration says, the remote machine gets no way back to or through this host.
NO_WAY_BACK = ("ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no", "PermitLocalCommand=no", "Tunnel=no")

#: This host. Programs here end with the thread that started them, however that ends.
LOCAL = Place("local", ("setpriv", "--pdeathsig", "KILL", "--"))
