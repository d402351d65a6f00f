# SPDX-License-Identifier: Apache-2.0
"""How a router comes to be: kernel, guest userland and nodes, virtual and physical."""
