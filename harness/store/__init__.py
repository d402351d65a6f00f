# SPDX-License-Identifier: Apache-2.0
"""Runs on disk: one directory per run, its manifest, and claims."""
