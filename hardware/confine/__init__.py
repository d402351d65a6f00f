# SPDX-License-Identifier: Apache-2.0
"""What machines and decoders may reach of the host: a launcher in C, and who starts it."""
