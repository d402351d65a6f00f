# SPDX-License-Identifier: Apache-2.0
"""The claim's own shell, in a place whose /run is its own: nobody undoes another's, and nobody is left unwatched."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which

import pytest

from sojourn.bottleneck.lease import FOLDER, LeaseError, MachineLease, owner_of, undo_stale
from sojourn.hardware.machine.files import CHECKOUT
from sojourn.hardware.machine.namespaces import Namespaces
from sojourn.hardware.machine.place import Place
from tests.refusals import refusal

#: What the set-up of a claim is here: a file, which its undoing removes.
SET_UP = "/run/set-up"
UNDO = [f"rm {SET_UP}"]
#: One of two hosts that want the router: claims, sets up, looks whether that stays, gives back; prints how often.
HOST = f"""
import os, random, sys, time
from sojourn.bottleneck.lease import LeaseError, MachineLease
from sojourn.hardware.machine.place import Place
router = Place("router", tuple(sys.argv[1:]))
had = 0
deadline = time.monotonic() + 60
while had < 8 and time.monotonic() < deadline:
    lease = MachineLease(router, {UNDO!r}, lease_s=20)
    try:
        lease.claim()
    except LeaseError:
        time.sleep(random.uniform(0, 0.05))
        continue
    mine = str(os.getpid())
    router.run(["sh", "-c", "[ ! -e {SET_UP} ] && echo $1 >{SET_UP}", "sh", mine])
    time.sleep(random.uniform(0, 0.1))
    assert lease.holds() and router.run(["cat", "{SET_UP}"]).strip() == mine
    lease.release()
    had += 1
print(had)
"""


@pytest.fixture
def router() -> Iterator[Place]:
    with Namespaces(["router"]) as spaces:
        spaces["router"].run(["mount", "-t", "tmpfs", "tmpfs", "/run"])
        yield spaces["router"]


def until(what: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        time.sleep(0.05)


def watcher(router: Place) -> str:
    return router.run(["cat", f"{FOLDER}/watch"]).strip()


def there(router: Place, path: str) -> bool:
    return not router.run(["sh", "-c", f"[ -e {path} ] || echo no"])


def test_a_claim_whose_watcher_died_is_lost_at_the_next_beat(router: Place) -> None:
    lease = MachineLease(router, UNDO, lease_s=10)
    lease.claim()
    try:
        router.run(["kill", "-KILL", watcher(router)])
        until(lambda: "the watcher of the claim has ended" in str(lease.lost))
    finally:
        lease.release()
    assert not there(router, FOLDER)


def test_a_beat_is_whole_whenever_it_is_read(router: Place) -> None:
    """One that is written in place is empty for a moment, and the claim then looks like someone else's."""
    lease = MachineLease(router, UNDO, lease_s=10)
    lease.claim()
    beat = f"{FOLDER}/beat"
    try:
        router.run(["ln", beat, "/run/kept"])
        kept = router.run(["cat", "/run/kept"])
        until(lambda: router.run(["cat", beat]) != kept)
        assert router.run(["cat", "/run/kept"]) == kept
    finally:
        lease.release()


def test_a_release_that_comes_late_leaves_the_next_ones_claim(router: Place) -> None:
    first, second = (MachineLease(router, UNDO, lease_s=20) for _ in range(2))
    first.claim()
    router.run(["rm", "-r", FOLDER])  # as its dead man's timer does
    time.sleep(0.1)  # claims are told apart by tenths of a second, and their process
    second.claim()
    router.run(["touch", SET_UP])
    try:
        first.release()
        assert second.holds() and second.lost is None and there(router, SET_UP)
    finally:
        second.release()
    assert not there(router, SET_UP) and not there(router, FOLDER)


def test_the_watcher_of_a_claim_that_is_gone_undoes_nothing(router: Place) -> None:
    """The first one's watcher lives on, as where its host could not reach it to end it."""
    first = MachineLease(router, UNDO, lease_s=10)
    first.claim()
    left = watcher(router)
    first.stop()
    router.run(["mv", FOLDER, "/run/gone"])
    second = MachineLease(router, UNDO, lease_s=60)
    second.claim()
    router.run(["touch", SET_UP])
    try:
        until(lambda: router.run(["sh", "-c", f"[ -e /proc/{left} ] || echo ended"]))
        assert second.holds() and there(router, SET_UP)
    finally:
        second.release()


def test_a_machine_where_the_user_is_not_root_is_refused_with_what_helps(router: Place) -> None:
    router.run(["mount", "-o", "remount,ro", "/run"])
    with pytest.raises(LeaseError, match=r"^router: cannot be claimed: mkdir: .*; see `sojourn lab check`$"):
        MachineLease(router, UNDO, lease_s=20).claim()


def test_a_machine_without_setsid_is_not_claimed(router: Place) -> None:
    """Its claim would have nobody who watches it."""
    router.run(["mkdir", "/run/bin"])
    for name in ("sh", "mkdir", "cat"):
        router.run(["ln", "-s", which(name) or "", "/run/bin"])
    bare = Place("router", (*router.prefix, "env", "PATH=/run/bin"))
    with pytest.raises(LeaseError, match=r"^router: cannot be claimed: setsid is missing; see `sojourn lab check`$"):
        MachineLease(bare, UNDO, lease_s=20).claim()
    assert not there(router, FOLDER)


def test_of_two_hosts_that_race_for_a_router_each_has_it_alone(router: Place) -> None:
    hosts = [
        subprocess.Popen(
            [sys.executable, "-c", HOST, *router.prefix], cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for host in hosts:
        out, err = host.communicate(timeout=120)
        assert host.returncode == 0 and int(out) == 8, err
    assert not there(router, FOLDER) and not there(router, SET_UP)


def test_a_killed_hosts_claim_is_undone_by_one_that_comes(router: Place, tmp_path: Path) -> None:
    hold = HOST.replace("had += 1", "").replace("lease.release()", "print('has', flush=True); sys.stdin.read()")
    killed = subprocess.Popen(
        [sys.executable, "-c", hold, *router.prefix], cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    assert killed.stdout and killed.stdout.readline() == "has\n"
    with refusal(LeaseError, "in-use", f"process {killed.pid}, since "):
        undo_stale(router)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert f"process {killed.pid}" in undo_stale(router)
    assert owner_of(router) is None and not there(router, SET_UP)
    # Its own /proc: whoever else on this machine watches a router is none of ours.
    until(lambda: "sojourn-dead-man" not in router.run(["sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null; true"]))
