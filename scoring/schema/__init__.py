# SPDX-License-Identifier: Apache-2.0
"""The contents of a run's files: records to read, scores to write, columns of tables."""
