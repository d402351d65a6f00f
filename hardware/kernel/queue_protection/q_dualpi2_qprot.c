/* SPDX-License-Identifier: GPL-2.0 */
/* The words of sch_dualpi2_qprot.c for tc; see USAGE. Times without a unit are us, and are shown as such. */
#include <stdio.h>
#include <string.h>

#include "utils.h"
#include "tc_util.h"

#include "dualpi2_qprot.h"

#define USAGE										\
	"... dualpi2_qprot rate RATE [ limit PACKETS ] [ max_th TIME ] [ lg_range BITS ] [ critical_ql TIME ]\n"	\
	"                  [ critical_score TIME ] [ lg_aging BITS ] [ protect | no_protect ]\n"

static const struct word {
	const char *name;
	int attribute;
	int (*get)(__u32 *value, const char *text);
	const char *shown;	/* where the kernel shows what it made of the value */
} words[] = {
	{ "limit", TCA_QPROT_LIMIT },
	{ "max_th", TCA_QPROT_MAX_TH, get_time, "ramp_end" },
	{ "lg_range", TCA_QPROT_LG_RANGE },
	{ "critical_ql", TCA_QPROT_CRITICAL_QL, get_time },
	{ "critical_score", TCA_QPROT_CRITICAL_SCORE, get_time },
	{ "lg_aging", TCA_QPROT_LG_AGING },
};

#define WORDS (sizeof(words) / sizeof(*words))

/* Add a word with a number and return whether it is one. */
static int add_word(struct nlmsghdr *n, const char *name, const char *text)
{
	for (unsigned int i = 0; i < WORDS; i++) {
		__u32 value;

		if (strcmp(words[i].name, name))
			continue;
		if (words[i].get ? words[i].get(&value, text) : get_u32(&value, text, 0))
			return 0;
		addattr_l(n, 1024, words[i].attribute, &value, sizeof(value));
		return 1;
	}
	return 0;
}

static int qprot_parse_opt(const struct qdisc_util *qu, int argc, char **argv, struct nlmsghdr *n, const char *dev)
{
	struct rtattr *nest = addattr_nest(n, 1024, TCA_OPTIONS | NLA_F_NESTED);

	while (argc) {
		__u64 rate;
		int taken = 2;

		if (!strcmp(*argv, "protect") || !strcmp(*argv, "no_protect")) {
			__u32 protects = **argv == 'p';

			addattr_l(n, 1024, TCA_QPROT_PROTECT, &protects, sizeof(protects));
			taken = 1;
		} else if (argc > 1 && !strcmp(*argv, "rate") && !get_rate64(&rate, argv[1])) {
			addattr_l(n, 1024, TCA_QPROT_RATE64, &rate, sizeof(rate));
		} else if (argc < 2 || !add_word(n, argv[0], argv[1])) {
			fprintf(stderr, "Illegal \"%s\"; usage: " USAGE, *argv);
			return -1;
		}
		argc -= taken;
		argv += taken;
	}
	addattr_nest_end(n, nest);
	return 0;
}

static int qprot_print_opt(const struct qdisc_util *qu, FILE *f, struct rtattr *opt)
{
	struct rtattr *tb[TCA_QPROT_MAX + 1];

	if (!opt)
		return 0;
	parse_rtattr_nested(tb, TCA_QPROT_MAX, opt);
	if (tb[TCA_QPROT_RATE64])
		tc_print_rate(PRINT_ANY, "rate", "rate %s ", rta_getattr_u64(tb[TCA_QPROT_RATE64]));
	for (unsigned int i = 0; i < WORDS; i++) {
		const char *name = words[i].shown ?: words[i].name;
		char format[32];

		if (!tb[words[i].attribute])
			continue;
		snprintf(format, sizeof(format), "%s %%u%s ", name, words[i].get ? "us" : "");
		print_uint(PRINT_ANY, name, format, rta_getattr_u32(tb[words[i].attribute]));
	}
	if (tb[TCA_QPROT_PROTECT]) {
		bool protects = rta_getattr_u32(tb[TCA_QPROT_PROTECT]);

		print_bool(PRINT_JSON, "protect", NULL, protects);
		print_string(PRINT_FP, NULL, "%s ", protects ? "protect" : "no_protect");
	}
	return 0;
}

static int qprot_print_xstats(const struct qdisc_util *qu, FILE *f, struct rtattr *xstats)
{
	const struct tc_qprot_xstats *stats;

	if (!xstats || RTA_PAYLOAD(xstats) < sizeof(*stats))
		return 0;
	stats = RTA_DATA(xstats);
	print_float(PRINT_ANY, "prob", "  prob %f", stats->prob / 4294967295.0);
	print_uint(PRINT_ANY, "delay-c", " delay_c %uus", stats->delay_c);
	print_uint(PRINT_ANY, "delay-l", " delay_l %uus", stats->delay_l);
	print_uint(PRINT_ANY, "pkts-in-c", "\n  pkts_in_c %u", stats->packets_in_c);
	print_uint(PRINT_ANY, "pkts-in-l", " pkts_in_l %u", stats->packets_in_l);
	print_uint(PRINT_ANY, "nqb", " nqb %u", stats->nqb);
	print_uint(PRINT_ANY, "ecn_mark", "\n  ecn_mark %u", stats->ecn_mark);
	print_uint(PRINT_ANY, "native_mark", " native_mark %u", stats->native_mark);
	print_u64(PRINT_ANY, "sanctioned", "\n  sanctioned %llu", stats->sanctioned);
	print_uint(PRINT_ANY, "sanctioned_flows", " sanctioned_flows %u", stats->sanctioned_flows);
	print_uint(PRINT_ANY, "in_dregs", " in_dregs %u", stats->in_dregs);
	return 0;
}

struct qdisc_util dualpi2_qprot_qdisc_util = {
	.id = "dualpi2_qprot",
	.parse_qopt = qprot_parse_opt,
	.print_qopt = qprot_print_opt,
	.print_xstats = qprot_print_xstats,
};
