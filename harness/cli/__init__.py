# SPDX-License-Identifier: Apache-2.0
"""The command line: ``sojourn …``. Every command is a thin call of a function that the tests call too."""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from hardware.machine.files import CHECKOUT
from hardware.machine.signals import keep_to_ourselves

if TYPE_CHECKING:
    from harness.lab.doctor import Finding

# The commands import what they need themselves: a warm `sojourn build` is part of every make target.

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
bundle_app = typer.Typer(no_args_is_help=True, help="Runs as archives: pack, check, unpack.")
app.add_typer(bundle_app, name="bundle")
hardware_app = typer.Typer(no_args_is_help=True, help="The physical router.")
app.add_typer(hardware_app, name="hardware")
lab_app = typer.Typer(
    no_args_is_help=True, help="Prove that a physical lab is what its file says; switch its machines."
)
app.add_typer(lab_app, name="lab")


class _PlanOrCommand(TyperGroup):
    """``sojourn soak plan.toml`` is ``sojourn soak run plan.toml``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


soak_app = typer.Typer(
    cls=_PlanOrCommand, no_args_is_help=True, help="Run a plan's cells through a night: sojourn soak PLAN --hours=10."
)
app.add_typer(soak_app, name="soak")

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory under results/.")]
LabFilePath = Annotated[Path, typer.Argument(metavar="LAB_FILE", help="The lab's description, lab.toml.")]
P = ParamSpec("P")
R = TypeVar("R")
_STYLE = {"ok": ("✓", "green"), "note": ("!", "yellow"), "missing": ("✗", "red")}


@app.callback()
def main() -> None:
    """Sojourn: what a bottleneck queue does to the video that people watch while a bulk flow competes."""
    keep_to_ourselves()


def one_line_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the errors that the parts raise for users into one line on standard error and exit code 1."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (RuntimeError, OSError) as error:
            if isinstance(error, typer.Exit | typer.Abort):
                raise
            print(f"sojourn: {error}", file=sys.stderr)
            raise typer.Exit(1) from error

    return wrapped


@app.command()
@one_line_errors
def build(
    kernel_source: Annotated[
        Path | None,
        typer.Option(help="A kernel tarball; default: the newest linux-source-7.x of the archive."),
    ] = None,
) -> None:
    """Make what runs need and the cache lacks: kernel, roots of nodes and of the simulated machine, film, player."""
    from apps.standins.clip import ensure_clip
    from apps.standins.origin import ensure_certificate, ensure_player
    from hardware.build import ensure_kernel
    from hardware.desktop import ensure_desktop
    from hardware.guest import ensure_guest
    from harness.experiment.progress import named, steps
    from harness.experiment.simulated import all_at_once

    with steps() as step:
        ensure_certificate()
        all_at_once(
            lambda: ensure_kernel(kernel_source, progress=named(step("kernel"))),
            lambda: ensure_guest(progress=named(step("guest root"))),
            lambda: ensure_desktop(progress=named(step("guest with browser"))),
            lambda: (ensure_player(), ensure_clip(step("film"))),
        )


@app.command()
def doctor(
    results: Annotated[Path, typer.Option(help="Where the runs will go.")] = Path("results"),
) -> None:
    """Tell what this machine can do, what is missing, and the fix for each; exit code 1 if it cannot run."""
    from hardware.machine.cache import root
    from harness.lab.doctor import examine

    _print_findings(examine(root(), results), "runs cannot work here yet")


@lab_app.command("check")
@one_line_errors
def lab_check(
    lab_file: LabFilePath,
    qdisc: Annotated[list[str] | None, typer.Option(help="A queue that the router must have; may be repeated.")] = None,
) -> None:
    """Prove each entry of a lab file where it stands, with the fix for each that is wrong; exit code 1 if any is."""
    from bottleneck.qdiscs import KINDS
    from hardware.lab_file import LabFileError, read_lab_file
    from harness.lab.check import examine

    known, wanted = ", ".join(KINDS), [text.split()[0] for text in qdisc or () if text]
    for kind in wanted:
        if kind not in KINDS:
            raise LabFileError(f"--qdisc: unknown qdisc {kind!r}; known are {known}")
    _print_findings(examine(read_lab_file(lab_file), wanted), f"runs cannot work by {lab_file} yet")


@lab_app.command("power")
@one_line_errors
def lab_power(
    lab_file: LabFilePath,
    machine: Annotated[str, typer.Argument(help="router, client, receiver, server or sender.")],
    action: Annotated[str, typer.Argument(help="on, off, cycle or get.")],
) -> None:
    """Switch a machine of a lab by the power control that its file names."""
    from hardware.lab_file import read_lab_file
    from hardware.power import PowerError, switch

    machines = read_lab_file(lab_file).machines
    if machine not in machines:
        raise PowerError(f"unknown machine {machine!r}; known: {', '.join(machines)}")
    print(switch(machine, machines[machine], action) or f"{machine}: {action} done")


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def harm(context: typer.Context) -> None:
    """Run the main job; every further argument goes to pytest, e.g. --qdisc=dualpi2 --rate=10mbit."""
    arguments = context.args
    if not any(argument.startswith("--service") for argument in arguments):
        arguments = ["--service=youtube", *arguments]
    test = str(CHECKOUT / "tests" / "test_video_harm.py")
    os.execv(sys.executable, [sys.executable, "-m", "pytest", f"--rootdir={CHECKOUT}", test, *arguments])


@app.command()
@one_line_errors
def matrix(
    name: Annotated[str, typer.Argument(help="Which matrix; without, all are listed.")] = "",
    keyword: Annotated[str, typer.Option("-k", metavar="TEXT", help="Only cells whose name holds each word.")] = "",
    seeds: Annotated[int | None, typer.Option(min=1, help="Runs of each cell [default: the matrix's own].")] = None,
    seed: Annotated[int, typer.Option(min=0, help="The first seed; the others follow it.")] = 1,
    results: Annotated[Path, typer.Option(help="Finished runs are kept here and not made again.")] = Path("results"),
    engine: Annotated[str, typer.Option(help="local, or dask://HOST:PORT: an existing Dask cluster.")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Guests side by side [default: processors].")] = None,
    again: Annotated[bool, typer.Option("--again", help="Make finished runs again.")] = False,
    endpoints: Annotated[str, typer.Option(help="What sends and receives in sim: bulk or iperf3.")] = "bulk",
    lab: Annotated[str, typer.Option(help="sim, virtual or apu [default: sim, where the matrix runs there].")] = "",
    lab_file: Annotated[Path, typer.Option(help="With --lab=apu: where the lab is described.")] = Path("lab.toml"),
    jitter_gate: Annotated[str, typer.Option(help="In real time: what voids a run, see docs/matrix.md.")] = "2ms",
    swap: Annotated[str, typer.Option(metavar="OLD=NEW", help="Another contender in all flows that have OLD.")] = "",
    listed: Annotated[bool, typer.Option("--list", help="List the cells and do nothing.")] = False,
) -> None:
    """Run a matrix of transport experiments, in simulated time on all processors at once; resumes where it was left."""
    from harness.matrix.campaign import Plan, cells_table, endpoints_named, lab_named, matrices_table, run_and_report
    from harness.matrix.campaign import jitter_gate as limits_of
    from harness.matrix.campaign import seeds as seeds_from
    from harness.matrix.matrix import matrices, named

    known = matrices()
    if not name:
        Console().print(matrices_table(known.values()))
        return
    chosen = named(name, known)
    if swap:
        chosen = chosen.swapped(swap)
    plan = Plan(
        chosen, chosen.select(keyword), seeds_from(seed, seeds or chosen.repeat), results, engine, workers, again,
        endpoints_named(endpoints), lab_named(lab) or chosen.labs[0], lab_file if lab == "apu" else None,
        limits_of(jitter_gate),
    )  # fmt: skip
    if listed:
        Console().print(cells_table(plan))
        return
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, lambda number, _frame: sys.exit(128 + number))
    if run_and_report(plan):
        raise typer.Exit(1)


@app.command()
@one_line_errors
def flent(
    results: Annotated[Path, typer.Argument(help="A matrix's results, or one run of a cell.")],
    to: Annotated[Path, typer.Option(help="Where the files go.")] = Path("flent"),
) -> None:
    """Export runs of cells as flent's data files (.flent.gz)."""
    from harness.matrix.flent import export

    print(f"{len(export(results, to))} files in {to}")


@app.command()
@one_line_errors
def rescore(
    run: Run,
    write: Annotated[bool, typer.Option("--write", help="Replace stored scores and status when they differ.")] = False,
) -> None:
    """Check the raw files, compute the scores from them again, compare with the stored ones, renew the report."""
    from harness.bundle.archive import verify
    from harness.report.run_page import REPORT, SCORES, write_report
    from harness.store.runs import StoreError, hash_file, reseal
    from scoring.score import score_run

    manifest = verify(run, derived=(SCORES, REPORT))
    if manifest.pruned:
        raise StoreError(f"{run}: cannot be scored again: pruned to make room: {', '.join(manifest.pruned)}")
    scores = score_run(run)
    fresh = scores.model_dump_json(indent=1) + "\n"
    stored = _object(run / SCORES)
    if (run / SCORES).exists() and manifest.files.get(SCORES) != hash_file(run / SCORES):
        print(f"sojourn: {run}: {SCORES} is not the one that the manifest holds", file=sys.stderr)
    gates = _gates(stored)
    failed = [gate.reason for gate in scores.validity.gates if not gate.ok]
    for reason in failed:
        if reason not in gates:
            print(f"sojourn: {run}: void now: {reason}", file=sys.stderr)
    differing = list(differences(stored, json.loads(fresh)))
    for line in differing[:10]:
        print(line)
    if differing and not write:
        print(
            f"sojourn: {run}: {len(differing)} scores differ from the stored ones; --write replaces them",
            file=sys.stderr,
        )
        raise typer.Exit(1)
    if write:
        (run / SCORES).write_text(fresh)
        # What no gate said stays; an interrupted run tells why it ended, and no more.
        told = [reason for reason in manifest.reasons if reason not in gates]
        reasons = told + [reason for reason in failed if reason not in told]
        reseal(run, SCORES, reasons=manifest.reasons if manifest.status == "interrupted" else reasons)
    reseal(run, write_report(run, scores).name)
    print(f"{run}: {'scores replaced' if differing else 'the same scores'}; report.html renewed")


@app.command()
@one_line_errors
def rerun(
    run: Run,
    results: Annotated[Path | None, typer.Option(help="Where the new run goes [default: beside the old one].")] = None,
) -> None:
    """Make a simulated run again from its manifest and tell whether the bytes are the same; exit code 2 if not."""
    from apps import SERVICES
    from harness.experiment.rerun import rerun as make_again

    path, files, unlike = make_again(run, results, SERVICES, sys.stderr)
    for name in files.other:
        print(f"other bytes: {name}")
    for name in files.missing:
        print(f"in one run only: {name}")
    for line in unlike:
        print(f"not the same {line}")
    if files.other or files.missing:
        print(f"{path}: NOT the same run: {len(files.same)} files are, {len(files.other) + len(files.missing)} are not")
        raise typer.Exit(2)
    print(f"{path}: the same bytes in all of {len(files.same)} files")


@app.command()
@one_line_errors
def report(
    place: Annotated[Path, typer.Argument(metavar="RUN_OR_RESULTS", help="A run directory, or a folder of runs.")],
) -> None:
    """Write report.html of a run again, from its scores.json; of a folder of runs index.html, with the harm in all."""
    from harness.report.index import write_index
    from harness.report.run_page import read_scores, write_report
    from harness.store.runs import MANIFEST, reseal

    if not (place / MANIFEST).exists():
        print(write_index(place))
        return
    path = write_report(place, read_scores(place))
    reseal(place, path.name)
    print(path)


@app.command()
@one_line_errors
def summary(
    places: Annotated[
        list[Path], typer.Argument(metavar="RESULTS...", help="Runs, folders of runs, or an earlier summary.")
    ],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Default: the earlier summary, or RESULTS/summary.")
    ] = None,
) -> None:
    """Tell what finished runs say together: figures with intervals over the runs, as tables, page, CSV and JSON."""
    from harness.report.repetitions import SUMMARY, experiments, find_runs, write_summary
    from harness.report.terminal import print_summary
    from harness.store.runs import MANIFEST

    found = experiments(find_runs(places))
    first = places[0].parent if (places[0] / MANIFEST).exists() else places[0]
    folder = first if (first / SUMMARY).exists() else first / "summary"
    print_summary(found, Console())
    print(write_summary(found, output or folder))


@app.command()
@one_line_errors
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A run, or a folder of runs.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="The same of the other side.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The page.")] = Path("compare.html"),
) -> None:
    """Compare two runs or two folders of runs: what was asked otherwise, then each metric with its difference."""
    from harness.report.compare import compare as compared
    from harness.report.compare import write_comparison
    from harness.report.terminal import print_comparison

    found = compared(a, b)
    print_comparison(found, Console())
    print(write_comparison(found, output))


@app.command()
@one_line_errors
def figure(
    run: Run,
    output: Annotated[Path, typer.Option("--output", "-o", help="The picture; its suffix names the format.")] = Path(
        "timeline.png"
    ),
) -> None:
    """Draw the timeline of a run as a picture."""
    from harness.report.run_page import read_scores
    from harness.report.timeline_figure import draw

    draw(read_scores(run), run, output)
    print(output)


@app.command()
@one_line_errors
def mos(
    run: Run,
    inputs: Annotated[
        Path | None, typer.Option(help="Keep the inputs of the reference software in this folder.")
    ] = None,
) -> None:
    """Tell the opinion scores (ITU-T P.1203, mode 0) of a run's phases; needs its reference software."""
    from harness.report import opinion_scores

    table = Table("phase", "O.35 without stalls", "O.46 overall")
    for phase, figures in opinion_scores.scores(run, inputs).items():
        table.add_row(phase, *(f"{figure:.2f}" for figure in figures))
    Console().print(table)
    print(f"Mode 0, no audio; the recommendation is made for {opinion_scores.SHORTEST_S} s and longer.")


@app.command()
@one_line_errors
def quality(
    run: Run,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between the pictures that are judged.")] = 1.0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A CSV file with each picture's.")] = None,
) -> None:
    """Tell what was left of the film's quality on the screen (SSIM, VMAF), by phase and rendition."""
    from rich.progress import Progress

    from harness.report import picture_quality

    with Progress(console=Console(stderr=True)) as bars:
        task = bars.add_task("painting the film anew", total=1.0)
        found = picture_quality.measure(run, every, lambda share: bars.update(task, completed=share))
    table = Table("phase", "height", "pictures", "SSIM", "P5", "VMAF", "P5")
    for phase, height, count, *figures in picture_quality.summary(found).iter_rows():
        told = (f"{it:.{digits}f}" if it is not None else "–" for it, digits in zip(figures, (3, 3, 1, 1), strict=True))
        table.add_row(phase, f"{height}p" if height else "–", str(count), *told)
    Console().print(table)
    if found["vmaf"].null_count():
        print("No VMAF: this ffmpeg has no libvmaf; pip install 'sojourn[vmaf]' brings one that has.")
    if output:
        found.write_csv(output)
        print(output)


@app.command()
@one_line_errors
def export(
    run: Run,
    composite: Annotated[
        bool, typer.Option("--composite", help="A film: the recording above its plots, through which a cursor moves.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Default: RUN-composite.mp4 beside the run.")
    ] = None,
) -> None:
    """Export a run to be shown: --composite makes an mp4 of its recording and its moving plots."""
    from rich.progress import Progress

    from harness.report.film import CompositeError
    from harness.report.film import export as film
    from harness.report.run_page import read_scores

    if not composite:
        raise CompositeError("export: say what: --composite (an archive is `sojourn bundle export`)")
    with Progress(console=Console(stderr=True)) as bars:
        task = bars.add_task("composite", total=1.0)
        path = film(run, read_scores(run), output, lambda share, what="": bars.update(task, completed=share))
    print(path)


@bundle_app.command("export")
@one_line_errors
def bundle_export(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs, or folders of runs.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="FILE.tar.zst, or a folder. Default: beside each run.")
    ] = None,
    anonymise: Annotated[
        bool, typer.Option("--anonymise", help="Without addresses, names, sites and sessions (docs/bundles.md).")
    ] = False,
    without_video: Annotated[
        bool, typer.Option("--without-video", help="Without the recording of the screen.")
    ] = False,
    key: Annotated[Path | None, typer.Option("--sign", metavar="KEY", help="Sign with this ssh key.")] = None,
) -> None:
    """Check runs and write each as one .tar.zst; those that are there and whole are left."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from harness.bundle.export import Wish, export_all, runs_at

    found = runs_at(runs)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    failed = 0
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bars:
        task = bars.add_task("", total=None)

        def begin(run: Path, size: int) -> Callable[[int], None]:
            bars.reset(task, total=size, description=f"{found.index(run) + 1} of {len(found)}: {run.name}")
            return lambda done: bars.update(task, advance=done)

        for made in export_all(found, output, Wish(anonymise, without_video, key), begin):
            if made.error:
                print(f"sojourn: {made.run}: {made.error}", file=sys.stderr)
                failed += 1
            else:
                print(f"{made.archive}{' (was whole)' if made.before else ''}")
    if failed:
        raise typer.Exit(1)


_Signers = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Demand a signature by one of these (ssh-keygen's allowed signers).")
]


@bundle_app.command("verify")
@one_line_errors
def bundle_verify(path: Annotated[Path, typer.Argument(metavar="FILE_OR_RUN")], signers: _Signers = None) -> None:
    """Check every hash of an archive or a run; name the first file that is not as the manifest says."""
    from harness.bundle.archive import check

    found = check(path, signers=signers)
    manifest = found.manifest
    why = f" ({'; '.join(manifest.reasons)})" if manifest.reasons else ""
    anonymised = ", anonymised" if manifest.bundle and manifest.bundle.anonymised else ""
    print(f"{path}: all {len(manifest.files)} files as recorded{anonymised}; the run is {manifest.status}{why}")
    if found.signer:
        print(f"signed by {found.signer}")
    elif found.signed:
        print("signed; --signers=FILE tells whether by somebody whom you know")


@bundle_app.command("import")
@one_line_errors
def bundle_import(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Bundles.")],
    results: Annotated[Path, typer.Option(help="The results folder that takes the runs.")] = Path("results"),
    signers: _Signers = None,
) -> None:
    """Check bundles and unpack each as a run; nothing is there before all of it is found right."""
    from harness.bundle.archive import import_bundle

    for file in files:
        print(import_bundle(file, results, signers))


def _print_findings(findings: Iterable[Finding], failed: str) -> None:
    """Print what was looked at, each with its fix if it needs one; exit code 1, after ``failed``, if runs need it."""
    table, missing = Table(box=None, show_header=False, pad_edge=False), []
    for finding in findings:
        mark, style = _STYLE[finding.verdict]
        told = Text(finding.found)
        if finding.verdict != "ok":
            told.append(f"\n→ {finding.fix}", style=style)
        if finding.verdict == "missing":
            missing.append(finding.subject)
        table.add_row(Text(mark, style=style), finding.subject, told)
    Console().print(table)
    if missing:
        print(f"sojourn: {failed}: {', '.join(missing)}", file=sys.stderr)
        raise typer.Exit(1)


@soak_app.command("run")
def soak_run(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, a TOML file (docs/soak.md).")],
    hours: Annotated[float | None, typer.Option(min=0.01, help="When the time is up no run is begun.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Only go on with a night that was cut short.")] = False,
    new: Annotated[bool, typer.Option("--new", help="Begin a night even if the last one could go on.")] = False,
    page: Annotated[
        str, typer.Option("--status", help="Where the status page is: a loopback address and port, or off.")
    ] = "127.0.0.1:8470",
) -> None:
    """Run a plan's cells in random rounds until the time is up, or go on with the night that was cut short.

    Exit codes: 0 every cell has valid runs, 1 some has none or was left out, 2 bad plan or options, 3 the lab is
    broken, 4 the disk is full, 5 another soak is at work, 6 the soak itself went wrong, 128 and its number after a
    signal.
    """
    from harness.soak.night import night

    raise typer.Exit(night(plan, hours if not resume else None, new=new, page=page, resume=resume))


@soak_app.command("status")
@one_line_errors
def soak_status(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A night, or the folder of the nights.")],
) -> None:
    """Tell how far a night is."""
    from harness.soak.state import opened
    from harness.soak.status import print_status, status

    print_status(status(opened(folder)), Console())


@soak_app.command("summary")
@one_line_errors
def soak_summary(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A night, or the folder of the nights.")],
) -> None:
    """Write a night's report.html, index.html and junit.xml again."""
    from harness.soak.state import opened
    from harness.soak.summary import write_summary

    print(write_summary(opened(folder)))


def _gates(stored: dict[str, Any]) -> set[str]:
    """What the gates of stored scores said; nothing where they are not of our kind."""
    try:
        return {gate["reason"] for gate in stored["validity"]["gates"]}
    except (LookupError, TypeError):
        return set()


@hardware_app.command("image")
@one_line_errors
def hardware_image(
    board: Annotated[str, typer.Option(help="apu2 (also APU3 and APU4).")] = "apu2",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Default: sojourn-BOARD.img here.")
    ] = None,
    ssh_key: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="A public key of who may log in; may be repeated. Default: ~/.ssh/id_*.pub."),
    ] = None,
    kernel_source: Annotated[
        Path | None,
        typer.Option(help="A kernel tarball; default: the newest linux-source-7.x of the archive."),
    ] = None,
) -> None:
    """Build a bootable Debian image of a router, for a USB stick or the board's own disk (docs/hardware.md)."""
    from hardware.board import named as board_named
    from hardware.image import make_image
    from harness.experiment.progress import named, steps

    chosen = board_named(board)
    file = output or Path(f"sojourn-{chosen.name}.img")
    with steps() as step:
        image = make_image(
            chosen, file, ssh_key or (), kernel_source, named(step("image")), named(step("board kernel"))
        )
    print(f"{file}: {file.stat().st_size >> 20} MB, Linux {image.kernel.version}")


def differences(stored: Any, fresh: Any, where: str = "scores") -> Iterator[str]:
    """Yield one line for each leaf in which two JSON values differ."""
    if isinstance(stored, dict) and isinstance(fresh, dict):
        for key in sorted(stored.keys() | fresh.keys()):
            yield from differences(stored.get(key), fresh.get(key), f"{where}.{key}")
    elif isinstance(stored, list) and isinstance(fresh, list) and len(stored) == len(fresh):
        for index, (one, other) in enumerate(zip(stored, fresh, strict=True)):
            yield from differences(one, other, f"{where}[{index}]")
    elif stored != fresh:
        yield f"{where}: stored {_short(stored)}, now {_short(fresh)}"


def _object(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _short(value: Any, most: int = 60) -> str:
    text = json.dumps(value)
    return text if len(text) <= most else text[: most - 1] + "…"

