# SPDX-License-Identifier: Apache-2.0
"""Runs on disk: one directory a run, its manifest, and who may make it."""
