# SPDX-License-Identifier: Apache-2.0
"""A user's own sch_*.c and tcp_*.c: what they define, their place in a kernel tree, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sojourn.hardware.kernel_build import own_files
from sojourn.hardware.kernel_build.board import BOARDS, ensure_board_kernel
from sojourn.hardware.kernel_build.kconfig import FRAGMENTS
from sojourn.hardware.kernel_build.kernel_source import checked, identify, short_name
from sojourn.hardware.kernel_build.own_files import OwnFiles, Placement
from sojourn.hardware.machine.cache import BuildError
from sojourn.traffic.contender import OPTIONAL
from tests.refusals import refusal

EXAMPLE = Path(__file__).parents[4] / "docs/examples/kernel"
MAKEFILE = "ccflags-y += -I$(srctree)/net/sched -I$(srctree)/net/ipv4\nobj-y := {}\n"


def qdisc(name: str) -> str:
    return f'static struct Qdisc_ops mine __read_mostly = {{\n\t.next = NULL,\n\t.id = "{name}",\n}};\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "sch_mine.c").write_text(f'/* .id = "other" */\n#include "mine.h"\n{qdisc("mine")}')
    (folder / "mine.h").write_text("enum { A };\n")
    (folder / "q_mine.c").write_text("tc\n")
    return folder


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "linux"
    for name, text in {
        "net/Makefile": "obj-y += sched/\n",
        "net/sched/sch_pie.c": qdisc("pie"),
        "net/ipv4/tcp_cubic.c": 'static struct tcp_congestion_ops cubictcp __read_mostly = { .name = "cubic", };\n',
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    (tree / own_files.PLACE).mkdir()
    return tree


def test_the_example_defines_a_qdisc_and_a_congestion_control() -> None:
    own = own_files.read(EXAMPLE)
    assert (own.qdiscs, own.controls) == ({"step": "sch_step.c"}, {"gentle": "tcp_gentle.c"})
    assert own.built == ["sch_step.c", "tcp_gentle.c"] and "step.h" in own.contents


def test_the_source_is_named_by_its_folder_and_content(folder: Path) -> None:
    before = identify(checked(folder))
    assert before.name == f"mine sha256:{own_files.read(folder).digest}" and before.own
    assert short_name(folder) == f"mine-{own_files.read(folder).digest[:12]}"
    (folder / "q_mine.c").write_text("tc's alone")
    assert identify(folder).key == before.key
    (folder / "mine.h").write_text("enum { B };\n")
    assert identify(folder).key != before.key


def test_names_are_found_after_addresses_in_texts_and_in_arrays(folder: Path) -> None:
    (folder / "sch_two.c").write_text(
        'static const char page[] = "http://example.org/*"; static struct Qdisc_ops ops[] = '
        '{ { .id = "one" }, /* { .id = "none" }, */ { .id = "two" } };\n'
    )
    assert dict(own_files.read(folder).qdiscs) == {"mine": "sch_mine.c", "one": "sch_two.c", "two": "sch_two.c"}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("int nothing;\n", 'no struct Qdisc_ops with .id = "NAME"'),
        (qdisc("Mine Own"), ".id = 'Mine Own'"),
        (qdisc("mine"), "registers 'mine', as sch_mine.c does"),
    ],
)
def test_a_file_without_a_usable_name_is_refused(text: str, named: str, folder: Path) -> None:
    (folder / "sch_other.c").write_text(text)
    with pytest.raises(ValueError, match=r"sch_other\.c: ") as wrong:
        checked(folder)
    assert named in str(wrong.value)
    with refusal(BuildError, "invalid-value", "--kernel-source: ", named):
        identify(folder)


def test_a_patch_is_part_of_the_source(folder: Path) -> None:
    before = own_files.read(folder)
    (folder / "0002-b.patch").write_text("b")
    (folder / "0001-a.patch").write_text("a")
    own = own_files.read(folder)
    assert list(own.patches) == ["0001-a.patch", "0002-b.patch"] and own.digest != before.digest
    assert own.built == before.built and own.names == "sch_mine.c, 0001-a.patch, 0002-b.patch"


def test_sojourns_own_optional_control_has_its_patches() -> None:
    own = own_files.read(FRAGMENTS / "bbr3")
    assert list(own.controls) == list(OPTIONAL) == ["bbr3"] and own.patches


def test_a_folder_without_such_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "q_mine.c").touch()
    with pytest.raises(
        ValueError, match=r"has no sch_\*\.c or tcp_\*\.c and is not a Linux tree \(no Makefile\); give"
    ):
        checked(tmp_path)


def test_a_board_takes_no_own_files(folder: Path) -> None:
    with refusal(BuildError, "unsupported", "--kernel-source: ", folder):
        ensure_board_kernel(BOARDS["apu2"], folder)


def test_files_get_a_place_of_their_own_and_only_changes_are_written(folder: Path, tree: Path) -> None:
    assert own_files.place(own_files.read(folder), tree) == Placement()
    place = tree / own_files.PLACE
    assert (place / "Makefile").read_text() == MAKEFILE.format("sch_mine.o")
    assert sorted(path.name for path in place.iterdir()) == ["Makefile", "mine.h", "sch_mine.c"]
    assert (tree / "net/Makefile").read_text() == "obj-y += sched/\nobj-y += sojourn/\n"
    for path in (*place.iterdir(), tree / "net/Makefile"):
        os.utime(path, (1, 1))
    (folder / "mine.h").write_text("enum { B };\n")
    own_files.place(own_files.read(folder), tree)
    assert [path.name for path in place.iterdir() if path.stat().st_mtime != 1] == ["mine.h"]
    assert (tree / "net/Makefile").stat().st_mtime == 1
    (folder / "mine.h").unlink()
    own_files.place(own_files.read(folder), tree)
    assert not (place / "mine.h").exists()


def test_a_file_with_the_name_of_the_trees_replaces_it_until_it_is_gone(folder: Path, tree: Path) -> None:
    (folder / "sch_pie.c").write_text(qdisc("pie") + "/* mine */\n")
    own = own_files.read(folder)
    for _ in range(2):
        assert own_files.place(own, tree) == Placement(("net/sched/sch_pie.c",))
        assert '#include "../../net/sojourn/sch_pie.c"' in (tree / "net/sched/sch_pie.c").read_text()
        assert (tree / own_files.PLACE / "Makefile").read_text() == MAKEFILE.format("sch_mine.o")
    (folder / "sch_pie.c").unlink()
    assert own_files.place(own_files.read(folder), tree) == Placement()
    assert (tree / "net/sched/sch_pie.c").read_text() == qdisc("pie")


def test_a_name_of_the_trees_in_another_file_is_refused(folder: Path, tree: Path) -> None:
    (folder / "sch_mine.c").write_text(qdisc("pie"))
    own = own_files.read(folder)
    with refusal(BuildError, "conflict", folder / "sch_mine.c", "'pie' is the name of net/sched/sch_pie.c"):
        own_files.place(own, tree)
    assert not list((tree / own_files.PLACE).iterdir()), "before anything is written"


def own() -> OwnFiles:
    return OwnFiles(Path("/home/me/mine"), {"sch_mine.c": b"", "mine.h": b""}, {"mine": "sch_mine.c"}, {})


@pytest.mark.parametrize(
    ("said", "error"),
    [
        (
            "  CC      net/sojourn/sch_mine.o\n"
            "/cache/tree/source/net/sojourn/sch_mine.c: In function 'mine_init':\n"
            "/cache/tree/source/net/sojourn/sch_mine.c:12:5: error: 'limt' undeclared\n"
            "/cache/tree/source/net/sojourn/sch_mine.c:13:5: error: another\n",
            "/home/me/mine/sch_mine.c:12:5: error: 'limt' undeclared",
        ),
        ("net/sojourn/mine.h:3:10: fatal error: no.h: No such file\n", "/home/me/mine/mine.h:3:10: fatal error: no.h"),
        (
            "ld: net/sojourn/sch_mine.o: in function `f':\nsch_mine.c:(.text+0x5): undefined reference to `g'\n",
            "undefined reference to `g'",
        ),
        (
            "/cache/tree/source/net/ipv4/tcp_input.c:7:1: error: expected ';'\n",
            "/home/me/mine/0001-more.patch: net/ipv4/tcp_input.c:7:1: error: expected ';'",
        ),
        ("/cache/tree/source/net/sched/sch_pie.c:1:1: error: not the user's\n", ""),
    ],
)
def test_the_first_error_names_the_users_file(said: str, error: str) -> None:
    found = own_files.first_error(said, own(), {"net/ipv4/tcp_input.c": "0001-more.patch"})
    assert error in found and bool(found) == bool(error)


def test_a_name_stays_the_trees_while_an_earlier_build_has_its_file(folder: Path, tree: Path) -> None:
    (folder / "sch_pie.c").write_text(qdisc("pie"))
    own_files.place(own_files.read(folder), tree)
    (folder / "sch_pie.c").unlink()
    (folder / "sch_mine.c").write_text(qdisc("pie"))
    with refusal(BuildError, "conflict", folder / "sch_mine.c", "'pie' is the name of net/sched/sch_pie.c"):
        own_files.place(own_files.read(folder), tree)
