# SPDX-License-Identifier: Apache-2.0
"""What runs are made by, below experiments and matrices."""
