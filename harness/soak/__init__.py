# SPDX-License-Identifier: Apache-2.0
"""The soak: an unattended batch of the main job's cells in random rounds that survives faults of the machine."""
