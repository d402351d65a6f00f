# SPDX-License-Identifier: Apache-2.0
"""Access to any machine: its places, processes, clock, namespaces, processors, cache and files."""
