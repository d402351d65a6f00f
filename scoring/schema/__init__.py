# SPDX-License-Identifier: Apache-2.0
"""What files of a run hold: records that are read, scores that are written, columns of tables."""
