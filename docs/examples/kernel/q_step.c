/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The words of sch_step.c for tc: step [ limit PACKETS ] [ threshold TIME ]
 */
#include <stdio.h>
#include <string.h>

#include "utils.h"
#include "tc_util.h"

#include "step.h"

static int step_parse_opt(const struct qdisc_util *qu, int argc, char **argv, struct nlmsghdr *n, const char *dev)
{
	struct rtattr *nest = addattr_nest(n, 1024, TCA_OPTIONS | NLA_F_NESTED);
	__u32 value;

	for (; argc > 1; argc -= 2, argv += 2) {
		if (!strcmp(argv[0], "limit") && !get_u32(&value, argv[1], 0))
			addattr_l(n, 1024, TCA_STEP_LIMIT, &value, sizeof(value));
		else if (!strcmp(argv[0], "threshold") && !get_time(&value, argv[1]))
			addattr_l(n, 1024, TCA_STEP_THRESHOLD, &value, sizeof(value));
		else
			break;
	}
	if (argc) {
		fprintf(stderr, "Illegal \"%s\"; usage: ... step [ limit PACKETS ] [ threshold TIME ]\n", *argv);
		return -1;
	}
	addattr_nest_end(n, nest);
	return 0;
}

static int step_print_opt(const struct qdisc_util *qu, FILE *f, struct rtattr *opt)
{
	struct rtattr *tb[TCA_STEP_MAX + 1];

	if (!opt)
		return 0;
	parse_rtattr_nested(tb, TCA_STEP_MAX, opt);
	if (tb[TCA_STEP_LIMIT])
		print_uint(PRINT_ANY, "limit", "limit %up ", rta_getattr_u32(tb[TCA_STEP_LIMIT]));
	if (tb[TCA_STEP_THRESHOLD])
		print_uint(PRINT_ANY, "threshold", "threshold %uus ", rta_getattr_u32(tb[TCA_STEP_THRESHOLD]));
	return 0;
}

static int step_print_xstats(const struct qdisc_util *qu, FILE *f, struct rtattr *xstats)
{
	const struct tc_step_xstats *stats;

	if (!xstats || RTA_PAYLOAD(xstats) < sizeof(*stats))
		return 0;
	stats = RTA_DATA(xstats);
	print_uint(PRINT_ANY, "ecn_mark", "  ecn_mark %u", stats->ecn_mark);
	return 0;
}

struct qdisc_util step_qdisc_util = {
	.id = "step",
	.parse_qopt = step_parse_opt,
	.print_qopt = step_print_opt,
	.print_xstats = step_print_xstats,
};
