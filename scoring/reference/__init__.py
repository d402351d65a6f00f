# SPDX-License-Identifier: Apache-2.0
"""Published figures, and how near ours come to them."""
