# SPDX-License-Identifier: Apache-2.0
"""Commands on bundles: export, verify, import."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sojourn.hardware.machine.messages import printable
from sojourn.harness.cli.common import (
    AsJson,
    Rescore,
    Signers,
    check_output,
    one_line_errors,
    print_json,
    report_page,
    write_index_of_runs,
)
from sojourn.harness.store.reasons import joined
from sojourn.harness.terminal import complain

app = typer.Typer(no_args_is_help=True, help="Share runs as archives: export, verify, import.")


@app.command("export")
@one_line_errors
def bundle_export(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Runs, or folders of runs.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="FILE.tar.zst, or a folder. Default: next to each run.")
    ] = None,
    anonymise: Annotated[
        bool,
        typer.Option(
            "--anonymise",
            help="Pack declared fields, masked captures and the recording; no logs or names (docs/bundles.md).",
        ),
    ] = False,
    without_video: Annotated[
        bool, typer.Option("--without-video", help="Exclude the recording of the screen.")
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(
            "--sign", metavar="KEY", help="Sign with this ssh key. Default: your `sign` option (docs/bundles.md)."
        ),
    ] = None,
) -> None:
    """Check runs and write each as one .tar.zst; keep complete archives, and print unfinished runs of folders."""
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from sojourn.harness.bundle.archive import SUFFIX
    from sojourn.harness.bundle.export import ExportRequest, export_all, runs_at
    from sojourn.harness.options.sources import user_defaults
    from sojourn.harness.report.verdict import left_out

    check_output("output", output, folder=bool(output and (output.is_dir() or not output.name.endswith(SUFFIX))))
    key = key or user_defaults(os.environ, Path.cwd()).sign
    for left in left_out(runs):
        print(
            printable(f"excluded: {left.path}: {': '.join(filter(None, (left.state, left.reason)))}"), file=sys.stderr
        )
    chosen = runs_at(runs)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn())
    failed = 0
    with Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False) as bars:
        task = bars.add_task("", total=None)

        def begin(run: Path, size: int) -> Callable[[int], None]:
            bars.reset(task, total=size, description=f"{chosen.index(run) + 1} of {len(chosen)}: {run.name}")
            return lambda done: bars.update(task, advance=done)

        for made in export_all(chosen, output, ExportRequest(anonymise, without_video, key), begin):
            if made.error:
                complain(f"{made.run}: {made.error}")
                failed += 1
            else:
                print(f"{made.archive}{' (already complete)' if made.before else ''}")
    if failed:
        raise typer.Exit(1)


@app.command("verify")
@one_line_errors
def bundle_verify(
    path: Annotated[Path, typer.Argument(metavar="FILE_OR_RUN")],
    signers: Signers = None,
    rescore: Rescore = True,
    as_json: AsJson = False,
) -> None:
    """Check every hash of an archive or a run, recompute its scores, and report the first difference."""
    from sojourn.harness.experiment.score_check import unchecked_pictures, verified

    result = verified(path, signers, rescore=rescore, page_of=report_page)
    checked, manifest, why_not = result.checked, result.checked.manifest, result.not_computed
    scores = f"scores NOT recomputed: {why_not}" if why_not else "scores recomputed: unchanged"
    pictures = unchecked_pictures(manifest)
    if as_json:
        record: dict[str, object] = {"run": manifest.run, "status": manifest.status}
        record["reasons"] = [reason.model_dump() for reason in manifest.reasons]
        record |= {"files": manifest.files, "bundle": manifest.bundle, "key": checked.key, "signer": checked.signer}
        print_json({**record, "scores": scores, "pictures": pictures, "other_page": result.other_page})
        return
    why = f" ({joined(manifest.reasons)})" if manifest.reasons else ""
    anonymised = ", anonymised" if manifest.bundle and manifest.bundle.anonymised else ""
    print(f"{path}: all {len(manifest.files)} files as recorded{anonymised}; the run is {manifest.state}{why}")
    if checked.signer:
        print(f"signed by {checked.signer}")
    elif checked.key:
        print(f"signed by the owner of the {checked.key}; use --signers=FILE to check who that is")
    else:
        print("not signed" if not checked.stale else "not signed in its present state: changed after it was signed")
    if result.other_page is None:
        print("report.html NOT compared with the scores")
    elif result.other_page:
        other = "another version, or its sender, wrote it; `sojourn report RUN` writes a new one"
        print(f"report.html does NOT match these scores: {other}")
    if pictures:
        print(pictures)
    print(printable(scores))


@app.command("import")
@one_line_errors
def bundle_import(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Bundles.")],
    results: Annotated[Path, typer.Option(help="Results folder for the runs.")] = Path("results"),
    signers: Signers = None,
    rescore: Rescore = True,
) -> None:
    """Check bundles, recompute their scores, unpack each as a run, and write the index.

    A run appears only after all of it has been checked.
    """
    from sojourn.harness.bundle.archive import AlreadyImportedError, import_bundle
    from sojourn.harness.experiment.score_check import unchecked_pictures, why_not_computed
    from sojourn.harness.store.manifest import Manifest

    imported = failed = 0
    try:
        for file in files:
            notes: list[str] = []

            def judge(run: Path, manifest: Manifest, file: Path = file, notes: list[str] = notes) -> None:
                if why := why_not_computed(run, manifest, file) if rescore else "--no-rescore":
                    notes.append(f"scores NOT recomputed: {why}")
                if pictures := unchecked_pictures(manifest):
                    notes.append(pictures)

            try:
                run = import_bundle(file, results, signers, judge)
            except AlreadyImportedError as there:
                print(f"{there.run} (already there)")
            except (RuntimeError, OSError) as error:
                complain(str(error))
                failed += 1
            else:
                print(run)
                imported += 1
                for note in notes:
                    print(printable(f"{run}: {note}"), file=sys.stderr)
    finally:
        if imported:
            write_index_of_runs(results)
    if failed:
        raise typer.Exit(1)
