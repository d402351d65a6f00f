# SPDX-License-Identifier: Apache-2.0
"""One service beside contenders: from options to a recorded run, once or as often as asked."""
