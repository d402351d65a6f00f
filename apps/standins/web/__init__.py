# SPDX-License-Identifier: Apache-2.0
"""Web pages as stand-ins: drawn from the Web Almanac's percentiles or read from a HAR, with bodies of Sojourn's own."""
