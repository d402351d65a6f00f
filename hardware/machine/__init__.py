# SPDX-License-Identifier: Apache-2.0
"""How any machine is reached and used: its places, processes, clock, namespaces, processors, cache and files."""
