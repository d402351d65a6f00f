# SPDX-License-Identifier: Apache-2.0
"""The speech of a call's ends. A call without it imports nothing of this."""
