# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build import training
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.machine.cache import BuildError


def test_the_training_runs_and_a_kernel_that_does_not_count_is_told(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="the training wrote no counts"):
        training.train(ensure_kernel(), ensure_guest(), tmp_path)
