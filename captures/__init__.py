# SPDX-License-Identifier: Apache-2.0
"""Recorders of what happened in a run: the screen, the packets, the player and the host."""
