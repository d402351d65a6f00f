# SPDX-License-Identifier: Apache-2.0
"""TCP-LP that does not negotiate ECN."""

from sojourn.traffic.contender import NO_ECN, Contender

LP_NOECN = Contender("lp-noecn", "lp", NO_ECN)
