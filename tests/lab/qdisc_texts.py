# SPDX-License-Identifier: Apache-2.0
"""Qdisc texts that together use every parameter of every kind."""

from __future__ import annotations

EVERY_PARAMETER = [
    "dualpi2",
    "dualpi2 limit 2000 memlimit 1000000 target 20ms tupdate 10ms alpha 0.2 beta 3.5 step_thresh 2ms "
    "min_qlen_step 3 coupling_factor 3 overflow drop_enqueue classic_protection 20% any_ect no_split_gso",
    "dualpi2 step_thresh 7p drop_on_overload drop_dequeue l4s_ect split_gso classic_protection 0%",
    "dualpi2 max_rtt 200ms typical_rtt 20ms",
    "dualpi2 max_rtt 80ms",
    "dualpi2 target 333us tupdate 1777us alpha 0.16 beta 3.2 step_thresh 999us",
    "fq_codel",
    "fq_codel flows 1",
    "fq_codel limit 5000 flows 512 quantum 300 target 7ms interval 133ms memory_limit 4mb drop_batch 32 "
    "ce_threshold 1ms ce_threshold_selector 0x1/0x3 noecn",
    "fq_codel target 777us ecn",
    "pfifo",
    "pfifo limit 100",
    "bfifo limit 150kb",
    "codel",
    "codel limit 500 target 13ms interval 177ms ce_threshold 1500us ecn",
    "codel noecn",
    "pie",
    "pie limit 100 target 7ms tupdate 30ms alpha 4 beta 21 ecn bytemode dq_rate_estimator",
    "pie target 333us tupdate 20ms noecn nobytemode no_dq_rate_estimator",
    "fq_pie",
    "fq_pie limit 2000 flows 64 target 17ms tupdate 40ms alpha 3 beta 19 quantum 3000 memory_limit 1mb "
    "ecn_prob 20 ecn bytemode dq_rate_estimator",
    "fq_pie noecn nobytemode no_dq_rate_estimator",
    "red limit 150000 avpkt 1000 adaptive bandwidth 10mbit ecn",
    "red limit 400000 min 30000 max 90000 avpkt 1000 burst 55 probability 0.05 bandwidth 100mbit ecn harddrop nodrop",
    "red limit 150000 avpkt 1500",
    "red limit 150000 avpkt 1000 ecn qevent early_drop block 10 qevent mark block 11",
    "cake besteffort triple-isolate",
    "cake bandwidth 9mbit rtt 50ms diffserv4 dual-srchost nonat wash no-split-gso ack-filter memlimit 2mb "
    "fwmark 0xff ptm overhead 30 mpu 64 ingress",
    "cake unlimited metro diffserv8 flows nowash split-gso ack-filter-aggressive egress atm overhead -4",
    "cake bandwidth 9mbit autorate-ingress precedence hosts no-ack-filter pppoe-ptm ether-vlan",
    "cake diffserv srchost docsis",
    "cake datacentre diffserv3 flowblind raw",
    "cake satellite dual-dsthost conservative",
    "cake dsthost ethernet via-ethernet",
    "fq",
    "fq limit 5000 flow_limit 50 quantum 3000 initial_quantum 15000 maxrate 8mbit buckets 1000 nopacing "
    "refill_delay 40ms bands 3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 0 weights 589824 196608 65536 "
    "low_rate_threshold 550kbit orphan_mask 1023 timer_slack 20us ce_threshold 3ms horizon 2s horizon_cap "
    "offload_horizon 0",
    "fq pacing horizon_drop",
    "sfq",
    "sfq limit 100 perturb 10 quantum 3000 divisor 512 flows 64 depth 32 headdrop",
    "sfq limit 120 redflowlimit 100000 min 8000 max 60000 avpkt 1000 burst 30 probability 0.1 ecn harddrop",
    "sfq redflowlimit 100000",
]
