# SPDX-License-Identifier: Apache-2.0
"""A cell inside a node of simulated time: its configuration and its results."""
