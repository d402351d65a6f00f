# SPDX-License-Identifier: Apache-2.0
"""A cache in a layer of a container's image: what lies in a lower layer cannot be renamed."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from sojourn.hardware.machine import cache
from sojourn.hardware.machine.files import CHECKOUT

BUILD = """
import sys
from pathlib import Path
from sojourn.hardware.machine import cache
entry = Path(sys.argv[1])
try:
    entry.rename(entry.with_name("other"))
except OSError as error:
    print(error.errno)  # else this tests nothing
print((cache.build_once(entry, lambda scratch: (scratch / "made").write_text("whole")) / "made").read_text())
print(sorted(path.name for path in entry.parent.iterdir()))
"""


def test_a_damaged_entry_of_a_lower_layer_is_built_again(tmp_path: Path) -> None:
    lower, upper, work, merged = (tmp_path / name for name in ("lower", "upper", "work", "merged"))
    for folder in (lower, upper, work, merged):
        folder.mkdir()
    entry = cache.build_once(lower / "entry", lambda scratch: (scratch / "made").write_text("whole"))
    (entry / "made").write_text("whale")
    layers = f"lowerdir={lower},upperdir={upper},workdir={work},userxattr"
    inside = shlex.join([sys.executable, "-c", BUILD, str(merged / "entry")])
    script = f"mount -t overlay -o {layers} overlay {merged} && exec {inside}"
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script], capture_output=True, text=True,
        cwd=CHECKOUT, env={**os.environ, "SOJOURN_CACHE": str(merged)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["18", "whole", "['.entry.lock', '.entry.seal', 'entry']"]  # 18: EXDEV
    assert "made is different from the build: rebuilding it" in done.stderr
