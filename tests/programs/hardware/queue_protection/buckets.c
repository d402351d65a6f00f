// SPDX-License-Identifier: GPL-2.0
/* Queue protection as the kernel compiles it, in user space: what tests set, call and read. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define div64_u64(a, b) ((a) / (b))

#include QUEUE_PROTECTION

struct queue_protection protection;

void begin(u64 rate)
{
	protection = (struct queue_protection){ .rate = rate };
	qprot_set_defaults(&protection);
	qprot_derive(&protection);
}

void derive(void)
{
	qprot_derive(&protection);
}

u32 probability(u64 delay)
{
	return qprot_probability(&protection, delay);
}

/* The number of the bucket, NBUCKETS for the dregs. */
u32 pick(u32 flow, u64 now)
{
	return qprot_pick(&protection, flow, now) - protection.buckets;
}

/* The score in ns. */
u64 fill(u32 flow, u32 bytes, u32 probability, u64 now)
{
	return qprot_fill(&protection, qprot_pick(&protection, flow, now), bytes, probability, now);
}

bool sanctions(u32 flow, u32 bytes, u64 delay, u64 now)
{
	return qprot_sanctions(&protection, flow, bytes, delay, now);
}
