# SPDX-License-Identifier: Apache-2.0
"""Commands on machines: this one, those of a lab, a router image."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from sojourn.apps.options import DRIVERS, RECORDERS
from sojourn.hardware.lab.lab_file import LABS
from sojourn.harness.cli.common import AsJson, Signers, check_output, one_line_errors, print_json
from sojourn.harness.options.errors import OptionsError
from sojourn.harness.options.model import BY_NAME, default_of
from sojourn.harness.terminal import complain, console_of

if TYPE_CHECKING:
    from sojourn.harness.lab.doctor import Finding


app = typer.Typer()
lab_app = typer.Typer(no_args_is_help=True, help="Check that a physical lab matches its file; switch its machines.")
app.add_typer(lab_app, name="lab")
hardware_app = typer.Typer(no_args_is_help=True, help="The physical router.")
app.add_typer(hardware_app, name="hardware")
_LAB_FILE: Path = default_of(BY_NAME["lab-file"])
LabFilePath = Annotated[Path, typer.Option("--lab-file", help="File that describes the lab.")]
_STYLE = {"ok": ("✓", "green"), "note": ("!", "yellow"), "missing": ("✗", "red")}


@app.command()
@one_line_errors
def build(
    kernel_source: Annotated[
        Path | None,
        typer.Option(
            help="Linux to build: a tar file, a folder or a git tree; default: Debian's newest 7.x; or a folder with "
            "your sch_*.c or tcp_*.c."
        ),
    ] = None,
    iproute2_source: Annotated[
        Path | None, typer.Option(help="tc to build: an iproute2 tree, or a folder with a q_NAME.c for each qdisc.")
    ] = None,
    taken: Annotated[
        str,
        typer.Option(
            "--from", metavar="FILE|URL", help="First take what another machine packed; requires --signers or --sha256."
        ),
    ] = "",
    signers: Signers = None,
    sha256: Annotated[
        str, typer.Option(metavar="HEX", help="Required digest of the archive: what --pack prints.")
    ] = "",
    packed: Annotated[
        Path | None,
        typer.Option("--pack", metavar="FILE", help="Then pack what simulated runs need as an archive."),
    ] = None,
    key: Annotated[Path | None, typer.Option("--sign", metavar="KEY", help="Sign the archive (ssh key).")] = None,
) -> None:
    """Build whatever is missing in the cache: kernel, root file systems, film, player.

    --pack and --from carry it to machines without compilers.
    """
    from sojourn.apps.players import ensure_players
    from sojourn.apps.standins.clip import Clip, ensure_clip
    from sojourn.apps.standins.origin import ensure_certificate, ensure_player
    from sojourn.hardware.confine.confinement import ensure_launcher
    from sojourn.hardware.images.desktop import Desktop, ensure_desktop
    from sojourn.hardware.images.guest import ensure_guest
    from sojourn.hardware.images.own_tc import checked
    from sojourn.hardware.kernel_build.build import ensure_kernel
    from sojourn.hardware.kernel_build.sources import Sources
    from sojourn.harness.bundle import prebuilt
    from sojourn.harness.experiment.simulated import all_at_once, encoder
    from sojourn.harness.lab.needs import require_npm
    from sojourn.harness.terminal import steps
    from sojourn.traffic.endpoints import ensure_endpoints

    if taken and not (signers or sha256):
        raise OptionsError("--from: give --signers or --sha256, so that only what you trust is taken", code="insecure")
    if not taken and (option := "signers" if signers else "sha256" if sha256 else ""):
        raise OptionsError(f"--{option}: nothing is taken; add --from=FILE", code="no-effect")
    if key and not packed:
        raise OptionsError("--sign: nothing is packed; add --pack=FILE", code="no-effect")
    if packed:
        check_output("pack", packed)
        prebuilt.check_output(packed, key)
    if iproute2_source:
        checked(iproute2_source)
    with steps() as step:
        if taken:
            with prebuilt.fetched(taken, step("archive")) as file:
                prebuilt.take(file, signers, sha256, step("unpacking"))
        require_npm()
        ensure_certificate()
        # A node's root has keys of its own, so it is not packed: only labs in real time need one.
        rest = [] if taken or packed else [lambda: ensure_guest(progress=step("guest root"))]

        def desktop_and_film() -> tuple[Desktop, Clip]:
            desktop = ensure_desktop(progress=step("guest with browser"))
            return desktop, ensure_clip(step("film"), encoder=encoder(desktop))

        kernel, (desktop, clip), *players = all_at_once(
            lambda: ensure_kernel(Sources(kernel_source, iproute2_source), progress=step("kernel")),
            desktop_and_film,
            ensure_player,
            ensure_players,
            *rest,
        )
        if packed:
            programs = ensure_launcher().parent, ensure_endpoints().parent
            film = clip.folder.with_name(clip.folder.name.partition("-")[0])  # before it is repeated
            entries = [kernel.linux.parent, desktop.root.parent, *players, film, *programs]
            digest = prebuilt.pack(entries, packed, key, step("packing"))
    if packed:
        print(f"{packed}: {packed.stat().st_size >> 20} MB, --sha256={digest}")


@app.command()
@one_line_errors
def doctor(
    lab: Annotated[str, typer.Option(help=f"Check only this lab: {', '.join(LABS)}.")] = "",
    driver: Annotated[str, typer.Option(help=f"Browser driver: {', '.join(DRIVERS)}.")] = DRIVERS[0],
    recorder: Annotated[str, typer.Option(help=f"Screen recorder: {', '.join(RECORDERS)}.")] = RECORDERS[0],
    lab_file: LabFilePath = _LAB_FILE,
    results: Annotated[Path, typer.Option(help="Folder for run directories.")] = Path("results"),
    as_json: AsJson = False,
) -> None:
    """Check this machine: which labs are ready, what is missing, how to fix it.

    Exit codes: 0 the lab of --lab (default: sim) is ready, 1 it is not, 2 an option is wrong.
    """
    from sojourn.hardware.machine.cache import root
    from sojourn.harness.lab.doctor import examine
    from sojourn.harness.lab.needs import needed

    for name, value, known in (("lab", lab, LABS), ("driver", driver, DRIVERS), ("recorder", recorder, RECORDERS)):
        if value and value not in known:
            raise typer.BadParameter(f"{value!r}; known: {', '.join(known)}", param_hint=f"--{name}")
    labs, judged = (lab,) if lab else LABS, lab or LABS[0]
    programs = {one: needed(one, driver=driver, recorder=recorder) for one in labs}
    findings, verdicts = examine(root(), results, programs, lab_file)
    if as_json:
        print_json([*findings, *verdicts.values()])
    else:
        _print_table(findings, judged)
        for one, verdict in verdicts.items():
            print(f"{one}: {verdict.found}")  # whole, so that a command in it can be copied
    if verdicts[judged].verdict != "ok":
        complain(f"the {judged} lab does not work here yet: {verdicts[judged].found}")
        raise typer.Exit(1)


@lab_app.command("init")
@one_line_errors
def lab_init(lab_file: LabFilePath = _LAB_FILE) -> None:
    """Create a lab file interactively, with proposals from router and hosts."""
    from sojourn.hardware.lab.lab_file import LabFileError, read_lab_file
    from sojourn.hardware.lab.lab_questions import ask_lab, written
    from sojourn.hardware.machine.files import replace_file
    from sojourn.hardware.machine.messages import printable

    if lab_file.exists():
        raise LabFileError(f"--lab-file: {lab_file} exists already; move it, or give another file", code="exists")
    check_output("lab-file", lab_file)
    try:
        tables = ask_lab(
            lambda question, proposal: str(typer.prompt(printable(question), default=proposal or None)),
            lambda text: print(printable(text)),
        )
    except typer.Abort as ended:
        print()
        raise LabFileError(f"lab init: the answers ended; {lab_file} was not written", code="missing") from ended
    draft = lab_file.with_name(f"{lab_file.name}.draft")
    replace_file(draft, written(tables).encode())
    read_lab_file(draft)
    draft.rename(lab_file)
    print(f"created {lab_file}; next: sojourn lab check --lab-file={lab_file}")


@lab_app.command("check")
@one_line_errors
def lab_check(
    lab_file: LabFilePath = _LAB_FILE,
    qdisc: Annotated[list[str] | None, typer.Option(help="Queue that the router must have; may be repeated.")] = None,
    as_json: AsJson = False,
) -> None:
    """Check every entry of a lab file on its machine, and print a fix for each problem; exit code 1 if there is any."""
    from sojourn.bottleneck.qdiscs import QdiscError, parse_qdisc
    from sojourn.hardware.lab.lab_file import LabFileError, read_lab_file
    from sojourn.hardware.machine.signals import ended_by_signals
    from sojourn.harness.lab.check import examine

    try:
        wanted = [str(parse_qdisc(text)) for text in qdisc or ()]
    except QdiscError as wrong:
        raise LabFileError(str(wrong), code="unknown-value") from wrong
    file = read_lab_file(lab_file)
    if wanted and file.box:
        raise LabFileError("--qdisc: the queue of a black box is fixed; omit --qdisc", code="no-effect")
    with ended_by_signals():  # what it has started elsewhere ends with it
        _print_findings(examine(file, wanted), f"runs with {lab_file} do not work yet", as_json)


@lab_app.command("power")
@one_line_errors
def lab_power(
    machine: Annotated[str, typer.Argument(help="router or box, client, receiver, server or sender.")],
    action: Annotated[str, typer.Argument(help="on, off, cycle or get.")],
    lab_file: LabFilePath = _LAB_FILE,
) -> None:
    """Switch a lab's machine through the power control in its file; one in use only answers `get`."""
    from sojourn.hardware.lab.lab_file import read_lab_file
    from sojourn.hardware.lab.power import PowerError, switch
    from sojourn.harness.lab.physical import require_idle

    file = read_lab_file(lab_file)
    machines = file.machines
    if machine not in machines:
        raise PowerError(f"unknown machine {machine!r}; known: {', '.join(machines)}", code="unknown-value")
    if action != "get":
        require_idle(file, machine)
    print(switch(machine, machines[machine], action) or f"{machine}: {action} done")


@hardware_app.command("image")
@one_line_errors
def hardware_image(
    board: Annotated[str, typer.Option(help="apu2 (also APU3 and APU4).")] = "apu2",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Default: sojourn-BOARD.img here.")
    ] = None,
    ssh_key: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Public key that may log in; may be repeated. Default: ~/.ssh/id_*.pub."),
    ] = None,
    kernel_source: Annotated[
        Path | None,
        typer.Option(help="Linux to build: a tar file, a folder or a git tree; default: Debian's newest 7.x."),
    ] = None,
) -> None:
    """Build a bootable Debian image of a router, for a USB stick or the board's disk (docs/hardware.md)."""
    from sojourn.hardware.images.image import make_image
    from sojourn.hardware.kernel_build.board import named as board_named
    from sojourn.harness.terminal import steps

    chosen = board_named(board)
    file = output or Path(f"sojourn-{chosen.name}.img")
    check_output("output", file)
    with steps() as step:
        image = make_image(chosen, file, ssh_key or (), kernel_source, step("image"), step("board kernel"))
    print(f"{file}: {file.stat().st_size >> 20} MB, Linux {image.kernel.version}")


def _print_findings(findings: Iterable[Finding], failed: str, as_json: bool) -> None:
    """Print findings with their fixes; exit code 1, after `failed`, if runs cannot work."""
    findings = list(findings)
    print_json(findings) if as_json else _print_table(findings)
    if missing := [finding.subject for finding in findings if finding.verdict == "missing"]:
        complain(f"{failed}: {', '.join(missing)}")
        raise typer.Exit(1)


def _print_table(findings: Iterable[Finding], lab: str = "") -> None:
    """Print findings with their fixes; what only other labs need is marked as a note."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for finding in findings:
        others = finding.verdict == "missing" and lab and not finding.stops(lab)
        mark, style = _STYLE["note" if others else finding.verdict]
        text = Text(finding.found + (f" (for {', '.join(finding.labs)})" if others else ""))
        if finding.verdict != "ok" and finding.fix:
            text.append(f"\n→ {finding.fix}", style=style)
        table.add_row(Text(mark, style=style), finding.subject, text)
    console_of().print(table)
