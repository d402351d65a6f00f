# SPDX-License-Identifier: Apache-2.0
"""The origin of a broadcast with low latency."""
