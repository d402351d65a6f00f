# SPDX-License-Identifier: Apache-2.0
"""Registers Sojourn's options and fixtures."""

pytest_plugins = ["harness.experiment.plugin", "harness.matrix.plugin"]
