# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.build_tool import Tools
from sojourn.hardware.images import disk
from sojourn.hardware.machine.cache import BuildError


def test_the_file_system_is_one_of_the_builders_tools(tmp_path: Path) -> None:
    """It ends with them, and holds the locks of the cache until then."""
    (image := tmp_path / "disk").touch()
    (tools := Tools()).end()
    with pytest.raises(BuildError, match="another part of the set-up"):
        tools.work(lambda: disk.filesystem(tmp_path / "tar", image, 0))
