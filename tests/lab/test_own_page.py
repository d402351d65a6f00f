# SPDX-License-Identifier: Apache-2.0
"""Things of the user's own in simulated time: a page that his script has play, and a stream, both from a folder."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from sojourn.harness.store.loaded import load_run
from sojourn.harness.store.manifest import read_manifest
from sojourn.harness.store.runs import RunStore
from tests.lab.main_job import own_film, run_main_job

pytestmark = [pytest.mark.lab, pytest.mark.nightly]

PAGE = """<!doctype html><body style="margin:0;background:#246"><button>play</button>
<video width=64 height=36></video>
<video id=film src="media/film.mp4" muted width=640 height=360 preload=none
  style="display:block;margin:20px 100px"></video>
<script>document.querySelector('button').onclick = () => document.querySelector('#film').play()</script>"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own")
    (media := folder / "site" / "media").mkdir(parents=True)
    (folder / "site" / "index.html").write_text(PAGE)
    (folder / "play.js").write_text(
        "// Presses the page's own button.\n() => document.querySelector('button').click();\n"
    )
    (folder / "tv").mkdir()
    own_film(media / "film.mp4")
    hls = ["-c", "copy", "-f", "hls", "-hls_time", "2", "-hls_playlist_type", "vod"]
    cut = ["ffmpeg", "-v", "error", "-i", str(media / "film.mp4"), *hls, str(folder / "tv" / "index.m3u8")]
    subprocess.run(cut, check=True)
    return folder


@pytest.mark.parametrize("service", ["page", "iptv"])
def test_what_is_in_a_folder_is_played_and_seen(own: Path, tmp_path: Path, service: str) -> None:
    of = {"page": [f"--url={own}/site/index.html", f"--script={own}/play.js"], "iptv": [f"--url={own}/tv/index.m3u8"]}
    # One flow leaves the picture alone; eight in a long queue leave it too little.
    path = ["--rate=3mbit", "--qdisc=pfifo limit 60", "--timeline=solo:10,cubic*8:20"]
    done = run_main_job(tmp_path, f"--service={service}", *of[service], *path)
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = RunStore(tmp_path).runs()
    scores = load_run(run).scores
    alone, beside = scores.phases
    assert scores.picture == "blind" and scores.blind
    assert (alone.stalls, alone.dominant_height) == (0, 360)
    assert (alone.victim_mbps or 0) > (beside.victim_mbps or 0)
    assert service == "page" or (beside.stall_s or 0) > 1  # which had fetched more ahead
    x, y, width, height = scores.blind.place
    if service == "page":  # a video somewhere in the page
        assert abs(width - 640) < 4 and abs(height - 360) < 4 and abs(x - 100) < 4 and y > 20
    lab = json.loads((run / "lab.json").read_text())
    assert len(lab["own_folder"]) >= 16 and "clip" not in lab
    versions = read_manifest(run).versions
    assert versions["system calls"] == "ptrace" and versions["confined by"] in ("namespaces", "landlock")
    assert str(own) not in (run / "lab.json").read_text()


#: What a page does as it plays, and what is said of it then.
ENDS = {
    "at once": ("throw new Error('no film')", r"--script: Error: no film"),
    "in mid-run": (
        "document.querySelector('button').click(); window.told ??= setTimeout(() => window.__sojourn.keep("
        "{ t: Date.now() / 1000, event: 'failed', detail: 'the plan has ended' }), 15000)",
        r"the player ended during the run: the plan has ended",
    ),
}


@pytest.mark.parametrize("moment", ENDS)
def test_what_a_page_showed_when_it_failed_is_in_the_run(own: Path, tmp_path: Path, moment: str) -> None:
    does, said = ENDS[moment]
    (script := tmp_path / "ends.js").write_text(f"() => {{ {does} }}")
    page = [f"--url={own}/site/index.html", f"--script={script}"]
    done = run_main_job(tmp_path / "results", "--service=page", *page, "--timeline=solo:60")
    assert done.returncode == 1
    assert re.search(rf"{said} \(what is shown: logs/page\.png, \.html\)", done.stdout + done.stderr)
    (logs,) = (tmp_path / "results").glob("*.partial/logs")
    assert "<button>play</button>" in (logs / "page.html").read_text() and (logs / "page.png").stat().st_size > 1000
