# SPDX-License-Identifier: Apache-2.0
"""Registers Sojourn's options and fixtures."""

pytest_plugins = ["sojourn.harness.experiment.plugin", "sojourn.harness.matrix.plugin"]
