# SPDX-License-Identifier: Apache-2.0
"""Labs: their interface, set-up and checks, and the instruments that load and observe them."""
