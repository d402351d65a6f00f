# SPDX-License-Identifier: Apache-2.0
"""`python -m harness.cli` is `sojourn`."""

from harness.cli import app

app()
