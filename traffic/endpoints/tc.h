// SPDX-License-Identifier: Apache-2.0
/* The routers' queues. tc: one process for each router, which takes commands until the end. */
#ifndef TC_H
#define TC_H

#include "common.h"

struct tc {
	char space[32];
	int in, out;
	bool sampled;
};

struct step {
	int64_t at;
	int tc;
	char command[LINE];
};

extern struct tc tcs[MOST_SPACES];
extern struct step steps[MOST_STEPS];
extern int tc_count, step_count;
extern FILE *queues;

void tc_do(struct tc *tc, const char *command);
void tc_ask(struct tc *tc, const char *command, FILE *answer);
int tc_of(const char *space);
void sample_queues(int64_t at);
void start_slots(void);

#endif
