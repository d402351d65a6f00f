# SPDX-License-Identifier: Apache-2.0
"""A cell inside a node of simulated time: what is asked for there, and what came of it."""
