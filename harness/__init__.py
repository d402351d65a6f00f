# SPDX-License-Identifier: Apache-2.0
"""From a user's options to evidence: labs, experiments, matrices, runs, reports, bundles, unattended batches."""
