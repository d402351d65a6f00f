# SPDX-License-Identifier: Apache-2.0
"""From what a user asks to evidence: labs, experiments, matrices, runs on disk, reports, bundles, nights."""
