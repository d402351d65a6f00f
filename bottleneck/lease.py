# SPDX-License-Identifier: Apache-2.0
"""A lease on a machine: the machine undoes what a run changed by itself when nobody has renewed the lease for a while.

A run claims its router and its hosts before it changes them. A folder on the machine holds the owner, the script that
undoes the changes, and the last beat. A shell in a session of its own watches the beats. It counts seconds itself,
because a machine's clock may jump, and needs only sh, setsid and sleep. The folder also identifies what a killed run
has left behind.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from sojourn.hardware.machine.clock import seconds
from sojourn.hardware.machine.errors import CodedError
from sojourn.hardware.machine.orphans import end_marked, machine
from sojourn.hardware.machine.periodic import PeriodicSampler
from sojourn.hardware.machine.place import CommandError, Place
from sojourn.hardware.machine.scratch import scratch_file

FOLDER = "/run/sojourn"
"""The claim on a machine; a network namespace of this host has one of its own, with its name added."""
_NAME = "sojourn-dead-man"
_TICKS = 10
_POLL_S = 0.5
#: Longest interval of beats, s: for so long, nobody notices that a machine is lost.
_BEAT_S = 2.0

# At once for who renews it: a beat that came between two steps of `rm` would leave a claim that nobody can release.
_REMOVE = '[ . -ef "$at" ] && cd / && mv "$at" "$at.$$" && rm -rf "$at.$$"'
# $at: the claim's folder, as in all scripts. $1: seconds per tick, $2: ticks without a new beat before everything is
# undone.
_WATCH = f"""
cd "$at" || exit
last= left=$2
while [ "$left" -gt 0 ]; do
    sleep "$1"
    [ -e beat ] || exit
    read -r now <beat
    if [ "$now" = "$last" ]; then left=$((left - 1)); else last=$now left=$2; fi
done
[ . -ef "$at" ] || exit
sh ./undo
{_REMOVE}
"""
# Whether process $watch is a watcher. Not `grep NAME /proc/…/cmdline`: busybox sees the first word alone.
_WATCHED = f"""tr '\\0' ' ' <"/proc/$watch/cmdline" | grep -q {_NAME}"""
# mkdir is the claim: only one of two concurrent callers succeeds. $1, $2 as above, $3: owner; stdin: the undo script.
_CLAIM = f"""
command -v setsid >/dev/null || {{ echo "setsid is missing" >&2; exit 1; }}
mkdir -p "${{at%/*}}"
mkdir "$at" && cd "$at" && cat >undo && printf '%s\\n' "$3" >owner && echo claimed >beat || exit
setsid sh -c "$4" {_NAME} "$1" "$2" </dev/null >/dev/null 2>&1 &
echo $! >watch
"""
# The pid may have been reused, so the name is checked. $1: the owner as written in the claim; empty: any owner.
_RELEASE = f"""
cd "$at" 2>/dev/null || exit 0
[ -z "$1" ] || [ "$(cat owner)" = "$1" ] || exit 0
sh ./undo
watch=$(cat watch) && {_WATCHED} && kill -- "-$watch"
{_REMOVE}
true
"""
# A beat is answered only while the claim exists and its watcher runs. It replaces the last one: a reader in between
# would find an empty file, take the claim for another's, and this run's own lab would be refused.
_RENEW = f"""
cd "$at" && watch=$(cat watch) || exit
while read -r beat; do
    [ . -ef "$at" ] || {{ echo "the claim is gone" >&2; exit 1; }}
    {_WATCHED} || {{ echo "the watcher of the claim has ended" >&2; exit 1; }}
    echo "$beat" >next && mv next beat || exit
    date +%s.%N
done
"""
_LOOK = '[ -d "$at" ] || exit 0; echo claimed; cd "$at" && cat owner beat 2>/dev/null; true'


class LeaseError(CodedError):
    """The machine is claimed by another run, or cannot be claimed; one line that says what would help."""


@dataclass(frozen=True)
class Owner:
    """Who has claimed a machine; `begun` in Unix s of the owner's clock, `beat_s` is the longest interval of renewals.

    `host` is the owner's `sojourn.hardware.machine.orphans.machine`. A bare host name (from an older Sojourn) does not
    identify a machine.
    """

    user: str
    host: str
    pid: int
    begun: float
    beat_s: float

    def __str__(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.begun))
        return f"{self.user}@{self.host.partition('/')[0]} (process {self.pid}, since {when} UTC)"


class MachineLease(PeriodicSampler):
    """The claim on a machine and the thread that renews it; its output compares that machine's clock with this one's.

    The end of the claim kills what this process has started there by ssh and runs `undo`, shell lines of which each may
    fail: at `release`, or within `lease_s` s (3 or more) after the last beat. Lines of `output`: `{"t": Unix s,
    "offset_s": how far its clock is ahead}`. `lost` says why the claim is no longer renewed.
    """

    def __init__(self, place: Place, undo: Sequence[str], lease_s: int, output: Path | None = None) -> None:
        self._undo, self._lease_s, self._beats = undo, lease_s, 0
        self._owner: Owner | None = None
        beat_s = min(lease_s / 5, _BEAT_S)
        super().__init__(place, _shell(place, _RENEW), output or scratch_file(".jsonl"), interval_s=beat_s)

    def claim(self) -> Owner:
        """Claim the machine, begin to renew, and return the owner.

        Raises `LeaseError`, CommandError and ProcessError.
        """
        user, now = psutil.Process().username(), round(time.time(), 1)
        owner = self._owner = Owner(user, machine(), os.getpid(), now, self._lease_s / 5)
        script = "\n".join(["exec 2>/dev/null", "PATH=$PATH:/usr/sbin:/sbin", end_marked(), *self._undo, ""])
        tick_s = max(1, self._lease_s // _TICKS)
        # A beat is noticed up to a tick late, and another tick passes before the next check.
        words = [str(tick_s), str(self._lease_s // tick_s - 2), json.dumps(owner.__dict__), _WATCH]
        try:
            self.place.run(_shell(self.place, _CLAIM, *words), input=script)
        except CommandError as refused:
            why = refused.stderr.strip() or str(refused)
            raise LeaseError(f"{self.place.name}: cannot be claimed: {why}; see `sojourn lab check`") from refused
        try:
            self.start()
        except BaseException:
            self.release()
            raise
        return owner

    @property
    def lost(self) -> str | None:
        """Why the claim is no longer renewed; None while it is."""
        if self.error:
            return str(self.error)
        alive = self._process is not None and self._process.alive()
        return None if alive else f"{self.place.name}: the connection has ended"

    def holds(self) -> bool:
        """Whether the machine still holds this claim. Raises CommandError."""
        return owner_of(self.place) == self._owner

    def release(self) -> None:
        """Undo the changes and release the claim, if it is still this run's; the watching shell ends.

        Raises CommandError.
        """
        self.stop()
        if self._owner:
            self.place.run(_shell(self.place, _RELEASE, json.dumps(self._owner.__dict__)))

    def sample(self) -> Iterator[bytes]:
        self._beats += 1
        moment, answer = self.ask(str(self._beats), last=b"\n")
        yield json.dumps({"t": round(moment, 6), "offset_s": round(seconds(answer) - moment, 4)}).encode() + b"\n"


def undo_stale(place: Place) -> str:
    """Undo what a run that ended abruptly left on a machine; return its owner, empty if there is none.

    Raises `LeaseError` if the owner is alive, within two of its beats, and CommandError.
    """
    owner, last, written = _look(place)
    if owner is None:
        return ""
    here = owner.host == machine()
    deadline = time.monotonic() + (0 if here and not psutil.pid_exists(owner.pid) else 2 * owner.beat_s)
    while time.monotonic() < deadline:
        now, beat, _ = _look(place)
        if now != owner:
            return str(owner)  # its own watcher was faster
        if beat != last:
            raise LeaseError(f"{place.name}: in use by {owner}; wait until that run has ended", code="in-use")
        time.sleep(_POLL_S)
    place.run(_shell(place, _RELEASE, written))
    return str(owner)


def owner_of(place: Place) -> Owner | None:
    """Return who has claimed a machine. Raises CommandError."""
    return _look(place)[0]


def _shell(place: Place, script: str, *words: str) -> list[str]:
    folder = f"{FOLDER}-{place.netns}" if place.netns else FOLDER
    return ["sh", "-c", f"export at={shlex.quote(folder)}\n{script}", "sh", *words]


def _look(place: Place) -> tuple[Owner | None, str, str]:
    """Return the claim's owner, its last beat, and the owner's text as written."""
    claimed, *said = place.run(_shell(place, _LOOK)).splitlines() or [""]
    if not claimed:
        return None, "", ""
    try:
        owner, beat = said
        return Owner(**json.loads(owner)), beat, owner
    except (ValueError, TypeError):  # killed between two lines of the claim, or claimed by a newer Sojourn
        written = said[0] if said and said[0].startswith("{") else ""
        return Owner("someone", "an unknown host", 0, 0.0, 5.0), "".join(said[1:]), written
