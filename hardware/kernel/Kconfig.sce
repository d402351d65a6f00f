# SPDX-License-Identifier: GPL-2.0
config TCP_CONG_SCE
	bool "Reno, DCTCP and CUBIC with Some Congestion Experienced"
	depends on TCP_CONG_CUBIC=y
	default n
	help
	  Congestion controls that tell the sender of ECT(1) marks in the
	  former NS flag of the TCP header, and answer them.

