# SPDX-License-Identifier: Apache-2.0
"""A program that means harm, in each lab's machines: it finds and changes nothing of the host's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from sojourn.hardware import build_tool, simulation
from sojourn.hardware.confine import confinement
from sojourn.hardware.confine.confinement import Confinement
from sojourn.hardware.images.desktop import ensure_desktop
from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.machine.viewer import UID
from sojourn.hardware.simulation import Root
from sojourn.harness.lab.virtual import VirtualLab

pytestmark = pytest.mark.lab

CONFINED = [Confinement.NAMESPACES, Confinement.LANDLOCK]
MEMORY_MB = 256
NOBODY = f"setpriv --reuid={UID} --regid={UID} --clear-groups --bounding-set=-all --no-new-privs --"
#: What lies in the folder that is the root of a machine, whichever way a mount leads there.
NAMES = {"cache", "dev", "job", "lib", "lib64", "linux", "memory", "proc", "root"}


@pytest.fixture(scope="module")
def program() -> Path:
    return build_tool.ensure_program("escape", Path(__file__).parent / "escape")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file of the host that a machine must not find; nothing may be made where it lies."""
    (folder := tmp_path / "host").mkdir()
    (folder / "secret").write_text("canary")
    return folder / "secret"


def came_of(
    program: Path, canary: Path, script: str, kind: Confinement, *, untrusted: bool = False, guest: Root | None = None
) -> list[str]:
    """The lines that a job printed in whose words ESCAPE is the program, and ROOT what it is to do as root."""
    if refused := confinement.refusal(kind):
        pytest.skip(refused)
    (folder := canary.parent.parent / "job").mkdir()
    shutil.copy(program, folder / "escape")
    script = script.replace("ROOT", f"root {canary} {canary.parent}").replace("ESCAPE", "/tmp/escape")
    # An unprivileged user may not enter the job's folder.
    (folder / "run").write_text(f"#!/bin/sh\ncp escape /tmp/escape; chmod 755 /tmp/escape\n{script}\ntrue\n")
    (folder / "run").chmod(0o755)
    simulation.run(
        ensure_kernel(), guest or ensure_guest(), folder, memory=f"{MEMORY_MB}M", untrusted=untrusted, confinement=kind
    )
    return (folder / "out").read_text().splitlines()


def found(lines: list[str]) -> list[str]:
    return [line for line in lines if line.split()[0] in ("read", "make") and line.endswith(" ok")]


def untouched(canary: Path) -> bool:
    return canary.read_text() == "canary" and [path.name for path in canary.parent.iterdir()] == [canary.name]


STUB = f"{NOBODY} ESCAPE stub {MEMORY_MB} ESCAPE ROOT"
#: Tries to change the folder that machines start from, which the cache keeps.
GUEST = """mkdir /tmp/guest; busybox mount -t hostfs -o root/. none /tmp/guest && echo list root/. $(ls /tmp/guest)
touch /tmp/guest/made && echo make root/. ok && rm /tmp/guest/made"""


def test_unconfined_it_becomes_root_and_finds_the_host(program: Path, canary: Path) -> None:
    """The other tests show something only as long as this attack works."""
    lines = came_of(program, canary, STUB, Confinement.NONE)
    assert lines[:3] == [f"user {UID}", "stub found", "became 0"]
    assert any(line.startswith("read ..") for line in found(lines)) and not untouched(canary)


@pytest.mark.parametrize("kind", CONFINED)
def test_root_by_the_stub_finds_nothing_of_the_host(program: Path, canary: Path, kind: Confinement) -> None:
    lines = came_of(program, canary, STUB, kind)
    assert "became 0" in lines and found(lines) == [] and untouched(canary)


@pytest.mark.parametrize("kind", CONFINED)
@pytest.mark.parametrize("lab", ["cells", "browsers"])
def test_root_finds_nothing_of_the_host(program: Path, canary: Path, kind: Confinement, lab: str) -> None:
    """In the guest of matrix cells, and in that of browsers."""
    guest = ensure_desktop() if lab == "browsers" else None
    lines = came_of(program, canary, f"ESCAPE ROOT\n{GUEST}", kind, guest=guest)
    (there,) = (line for line in lines if line.startswith("list root/. "))
    assert "usr" in there.split()
    assert len([line for line in lines if line.startswith(("read", "mount"))]) == 14
    assert found(lines) == [] and untouched(canary)
    listed = {name for line in lines if line.startswith("list / ") for name in line.split()[2:]}
    # Landlock lets nobody list the folder that its own links are in.
    assert listed <= NAMES and ({"job", "linux", "root"} <= listed or kind is Confinement.LANDLOCK)


@pytest.mark.parametrize("kind", CONFINED)
def test_the_stub_makes_no_other_call_of_the_host(program: Path, canary: Path, kind: Confinement) -> None:
    lines = came_of(program, canary, "ESCAPE calls", kind)
    assert lines[0] == "stub found" and len(lines) == 9
    assert [line for line in lines if line.endswith(" ok")] == []


@pytest.mark.parametrize("kind", [*CONFINED, Confinement.NONE])
def test_with_seccomp_off_nobody_becomes_root(program: Path, canary: Path, kind: Confinement) -> None:
    """As what the user brings is run: --url, --script, --clip."""
    lines = came_of(program, canary, STUB, kind, untrusted=True)
    assert lines[0] == f"user {UID}" and "became 0" not in lines and found(lines) == [] and untouched(canary)


def test_root_of_a_virtual_node_finds_nothing_of_the_host(canary: Path, tmp_path: Path) -> None:
    (run := tmp_path / "run").mkdir()
    up = "../../../../../../../../.."
    ways = ["/", "..", up, f"/proc/self/cwd/{up}", "/proc/self/root", "/proc/1/root", f"root/{up}", f"memory/{up}"]
    tries = "".join(
        f"if busybox mount -t hostfs -o {way} none /tmp/mounted; then\n"
        f"    echo list {way} $(ls /tmp/mounted)\n"
        f"    cat /tmp/mounted{canary} && echo read {way} ok\n"
        f"    touch /tmp/mounted{canary.parent}/made && echo make {way} ok\n    busybox umount /tmp/mounted\nfi\n"
        for way in ways
    )
    with VirtualLab(ensure_kernel(), ensure_guest(), run) as lab:
        for node in (lab.router.place, lab.sender):
            lines = node.run(["sh", "-c", f"mkdir /tmp/mounted; exec 2>/dev/null\n{tries}true"]).splitlines()
            assert found(lines) == [] and untouched(canary)
            (names,) = (line.split()[2:] for line in lines if line.startswith("list / "))
            assert {"linux", "memory", "root"} <= {*names} <= NAMES
