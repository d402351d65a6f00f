# SPDX-License-Identifier: Apache-2.0
"""Building routers and hosts: kernel, guest userland and nodes, virtual and physical."""
