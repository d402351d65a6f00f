# SPDX-License-Identifier: Apache-2.0
"""`python -m sojourn.harness.cli` is `sojourn`."""

from sojourn.harness.cli import app

app()
