# SPDX-License-Identifier: Apache-2.0
"""Labs: what each offers, how it is made and checked, and the instruments that load and observe it."""
