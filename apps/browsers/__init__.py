# SPDX-License-Identifier: Apache-2.0
"""The browser in which a service plays, and its drivers."""
