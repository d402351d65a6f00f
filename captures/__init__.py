# SPDX-License-Identifier: Apache-2.0
"""Recorders of a run's evidence: screen, packets, player and host."""
