# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from sojourn.hardware.images.guest import ensure_guest
from sojourn.hardware.kernel_build import training
from sojourn.hardware.kernel_build.build import ensure_kernel
from sojourn.hardware.machine.cache import BuildError
from tests.refusals import refusal


def test_the_training_runs_and_a_kernel_that_does_not_count_is_told(tmp_path: Path) -> None:
    with refusal(BuildError, "missing"):
        training.train(ensure_kernel(), ensure_guest(), tmp_path)
