# SPDX-License-Identifier: Apache-2.0
"""One service with contenders: from options to recorded runs, once or repeated."""
