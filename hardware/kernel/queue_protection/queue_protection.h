/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Queue protection of a low-latency queue, from RFC 9957, section 4. Names in capitals in the comments are the RFC's.
 *
 * A bucket's expiry is its flow's queuing score: it ends at the time `now` + score, so it ages by itself. Times are ns,
 * which is the RFC's T_RES of 1. Probabilities are 31-bit fractions.
 */
#ifndef SOJOURN_QUEUE_PROTECTION_H
#define SOJOURN_QUEUE_PROTECTION_H

#define QPROT_ATTEMPTS		2	/* ATTEMPTS */
#define QPROT_INDEX_BITS	5	/* BI_SIZE */
#define QPROT_BUCKETS		(1U << QPROT_INDEX_BITS)	/* NBUCKETS; the one after them is the dregs */
#define QPROT_FRAME		2000	/* MAX_FRAME_SIZE, bytes */
#define QPROT_SECOND		1000000000ULL
#define QPROT_SCORE_MAX		(5 * QPROT_SECOND)	/* qLSCORE_MAX */
#define QPROT_DELAY_MAX		(3 * QPROT_SECOND)	/* so that delay * score fits 64 bits */
#define QPROT_PROB_BITS		31
#define QPROT_CERTAIN		(1U << QPROT_PROB_BITS)	/* MAX_PROB */
/* 2^30 stands for the 10^9 ns of a second, as in the RFC's AGING. */
#define QPROT_SECOND_BITS	30

struct qprot_bucket {
	u32	flow;		/* id: the hash of its flow */
	bool	sanctioned;	/* whether a packet of that flow has been */
	u64	expiry;		/* t_exp */
};

struct queue_protection {
	u64	rate;		/* MAX_RATE, bit/s */
	u32	max_th_us;	/* MAXTH_us */
	u32	lg_range;	/* LG_RANGE */
	u32	critical_ql_us;	/* CRITICALqL_us; 0: the ramp's upper end */
	u32	critical_score_us; /* CRITICALqLSCORE_us */
	u32	lg_aging;	/* LG_AGING */

	u64	min_th, max_th;	/* MINTH, MAXTH: where the ramp begins and ends */
	u64	critical_ql;	/* CRITICALqL */
	u64	critical_product; /* CRITICALqLPRODUCT */
	struct qprot_bucket buckets[QPROT_BUCKETS + 1];
	u64	sanctioned;	/* packets */
	u32	sanctioned_flows;
	u32	in_dregs;	/* packets of flows that found no bucket */
};

/* RFC 9957, section 4.1; the rate is the caller's. */
static void qprot_set_defaults(struct queue_protection *it)
{
	it->max_th_us = 1000;
	it->lg_range = 19;
	it->critical_ql_us = 0;
	it->critical_score_us = 4000;
	it->lg_aging = 19;
}

/*
 * Derive the constants of section 4.1. On a slow link, two frames of the largest size take longer than the ramp's lower
 * end: the whole ramp moves up (FLOOR), and with it CRITICALqL, which is by default where the ramp ends.
 */
static void qprot_derive(struct queue_protection *it)
{
	u64 range = 1ULL << it->lg_range, end = it->max_th_us * 1000ULL;
	u64 floor = div64_u64(2 * 8 * QPROT_FRAME * QPROT_SECOND, it->rate);

	it->min_th = max(end > range ? end - range : 0, floor);
	it->max_th = it->min_th + range;
	it->critical_ql = it->critical_ql_us ? it->critical_ql_us * 1000ULL : it->max_th;
	it->critical_product = it->critical_ql * it->critical_score_us * 1000ULL;
}

/* The native AQM's probability of a mark at a queuing delay in ns: calcProbNative(), section 4.2.4. */
static u32 qprot_probability(const struct queue_protection *it, u64 delay)
{
	if (delay >= it->max_th)
		return QPROT_CERTAIN;
	return delay > it->min_th ? (delay - it->min_th) << QPROT_PROB_BITS >> it->lg_range : 0;
}

/* The bucket of a flow, by the hash of its identifiers: pick_bucket(), section 4.2.2. */
static struct qprot_bucket *qprot_pick(struct queue_protection *it, u32 flow, u64 now)
{
	struct qprot_bucket *free = NULL, *one;
	u32 hash = flow;

	for (u32 n = 0; n < QPROT_ATTEMPTS; n++, hash >>= QPROT_INDEX_BITS) {
		one = &it->buckets[hash & (QPROT_BUCKETS - 1)];
		if (one->flow == flow) {
			one->expiry = max(one->expiry, now);
			return one;
		}
		if (!free && one->expiry <= now)
			free = one;
	}
	if (!free) {
		free = &it->buckets[QPROT_BUCKETS];
		it->in_dregs++;
	}
	if (free->flow != flow)
		free->sanctioned = false;
	free->flow = flow;
	free->expiry = max(free->expiry, now);
	return free;
}

/* Add a packet's congested bytes to a score, and return the score in ns: fill_bucket(), section 4.2.3. */
static u64 qprot_fill(const struct queue_protection *it, struct qprot_bucket *bucket, u32 bytes, u32 probability,
		      u64 now)
{
	/* Divided by AGING, 2^(LG_AGING - 30) bytes per ns. */
	u64 added = (u64)probability * bytes >> (QPROT_PROB_BITS + it->lg_aging - QPROT_SECOND_BITS);
	u64 score = min(bucket->expiry - now + added, QPROT_SCORE_MAX);

	bucket->expiry = now + score;
	return score;
}

/* Whether a packet that arrives at a queuing delay must leave the low-latency queue: qprotect(), section 4.2.1. */
static bool qprot_sanctions(struct queue_protection *it, u32 flow, u32 bytes, u64 delay, u64 now)
{
	struct qprot_bucket *bucket = qprot_pick(it, flow, now);
	u64 score = qprot_fill(it, bucket, bytes, qprot_probability(it, delay), now);

	delay = min(delay, QPROT_DELAY_MAX);
	if (score < QPROT_SCORE_MAX && (delay <= it->critical_ql || delay * score <= it->critical_product))
		return false;
	it->sanctioned++;
	it->sanctioned_flows += !bucket->sanctioned;
	bucket->sanctioned = true;
	return true;
}

#endif
