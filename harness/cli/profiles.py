# SPDX-License-Identifier: Apache-2.0
"""The command that turns a recording of a video service into a profile."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sojourn.hardware.machine.messages import printable
from sojourn.harness.cli.common import AsJson, check_output, one_line_errors, print_json

app = typer.Typer()


@app.command("profile")
@one_line_errors
def profile(
    recording: Annotated[
        Path | None,
        typer.Argument(
            metavar="RECORDING",
            help="A HAR of Playwright or a browser's developer tools, or a packet capture (pcap, pcapng).",
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The profile's file.")] = Path(
        "service.toml"
    ),
    live: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Record the page at this address first, next to the profile."),
    ] = None,
    seconds: Annotated[
        int, typer.Option(min=10, max=600, metavar="N", help="With --live: length of the recording, s.")
    ] = 90,
    keys: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With a capture: the browser's log of TLS keys (SSLKEYLOGFILE)."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make a profile of a video service from a recording of its requests (experimental).

    The profile has the renditions, the size of every segment, the player's buffer, and what the recording shows of the
    path. `sojourn harm --service=profile --url=FILE` plays it. See docs/profile.md.
    """
    from sojourn.apps.standins.har import ArchiveError, read_har
    from sojourn.apps.standins.profile.from_capture import read_capture
    from sojourn.apps.standins.profile.from_har import profile_of
    from sojourn.apps.standins.profile.recorded import ServiceProfileError, profile_text
    from sojourn.apps.standins.profile.tshark import is_capture
    from sojourn.hardware.machine.files import replace_file

    if (recording is None) == (live is None):
        raise ServiceProfileError("give either a recording, a HAR or a packet capture, or --live=URL", code="missing")
    check_output("output", output)
    kept = recording if recording is not None else output.with_suffix(".har")
    for name, file in {"the recording": kept, "the log of keys": keys}.items():
        if file and (output == file or (output.exists() and file.exists() and output.samefile(file))):
            raise ServiceProfileError(f"-o: {output} is {name}; name another file", code="conflict")
    captured = recording is not None and is_capture(recording)
    if keys and not captured:
        raise ServiceProfileError(f"--keys={keys}: {kept} is no packet capture; omit --keys", code="no-effect")
    if live is not None:
        from sojourn.apps.standins.profile.live import record

        record(live, kept, seconds)
    har = read_capture(kept, keys) if captured else read_har(kept)
    try:
        made = profile_of(har)
    except (ServiceProfileError, ArchiveError) as wrong:
        raise ServiceProfileError(f"{kept}: {wrong}", code=wrong.code) from wrong
    try:
        replace_file(output, profile_text(made).encode())
    except OSError as wrong:
        raise ServiceProfileError(f"{output}: {wrong.strerror}", code="not-writable") from wrong
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    recorded = sum(it.recorded for it in made.rendition)
    print(printable(f"{made.service}: {recorded} segments of {made.segment_s:g} s, buffer {made.buffer_s:g} s"))
    for it in made.rendition:
        mean = sum(it.sizes) * 8 / len(it.sizes) / made.segment_s
        declared = f"{it.height:>6}p  {it.bandwidth / 1e6:6.2f} Mbit/s declared"
        print(f"{declared}, {mean / 1e6:.2f} in {len(it.sizes)} segments, {it.recorded} recorded")
    if made.sound:
        print(f" sound  {made.sound.bandwidth / 1e6:6.2f} Mbit/s, {made.sound.recorded} segments recorded; not played")
    print(f"wrote {output}")
