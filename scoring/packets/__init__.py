# SPDX-License-Identifier: Apache-2.0
"""Captures and samples of packets: throughput, ECN, latency, time in the router, the queue."""
