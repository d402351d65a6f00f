# SPDX-License-Identifier: Apache-2.0
"""Confinement of machines and decoders on the host: a launcher in C, and its callers."""
