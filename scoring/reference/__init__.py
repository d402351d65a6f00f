# SPDX-License-Identifier: Apache-2.0
"""Published figures, and the agreement of Sojourn's with them."""
