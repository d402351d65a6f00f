// SPDX-License-Identifier: GPL-2.0
/* With $SOJOURN_SEED set, the same bytes on every run (splitmix64): simulated time repeats bit for bit. */
static ssize_t seeded_random(const char *seed, unsigned char *buf, size_t len)
{
	static unsigned long long state;
	static int started;
	unsigned long long word = 0;
	size_t i;

	if (!started) {
		state = strtoull(seed, NULL, 0);
		started = 1;
	}
	for (i = 0; i < len; i++) {
		if (i % 8 == 0) {
			word = (state += 0x9e3779b97f4a7c15ULL);
			word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
			word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
			word ^= word >> 31;
		}
		buf[i] = word >> (i % 8 * 8);
	}
	return len;
}
