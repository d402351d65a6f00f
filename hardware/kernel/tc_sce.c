// SPDX-License-Identifier: GPL-2.0
/*
 * What iproute2's tc must know of our queues: cnq_cobalt, cnq_codel_af, lfq_cobalt,
 * twin_codel_af, deltic, and the words that SCE adds to cake. tc loads it as q_<kind>.so from its
 * library directory and uses <kind>_qdisc_util of it.
 *
 *	... lfq_cobalt [ bandwidth RATE | unlimited ] [ target TIME ] [ interval TIME ]
 *		       [ limit PACKETS ] [ sce | sce-thresh N | no-sce ]
 *	... deltic [ target TIME ] [ sce-target TIME ] [ drop-target TIME ] [ limit PACKETS ] [ sce | no-sce ]
 *	... cake ... [ sce | sce-single | sce-thresh N | no-sce ]
 */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sce.h"

/* tc's own, which it exports to such objects. */
struct qdisc_util {
	struct qdisc_util *next;
	const char *id;
	int (*parse)(const struct qdisc_util *, int argc, char **argv, struct nlmsghdr *, const char *dev);
	int (*print)(const struct qdisc_util *, FILE *, struct rtattr *);
	int (*print_statistics)(const struct qdisc_util *, FILE *, struct rtattr *);
	int (*parse_class)(const struct qdisc_util *, int argc, char **argv, struct nlmsghdr *, const char *dev);
	int (*print_class)(const struct qdisc_util *, FILE *, struct rtattr *);
	int (*has_block)(const struct qdisc_util *, struct rtattr *, bool *has);
};
enum { PRINT_ANY = 4, COLOR_NONE = 6, MESSAGE = 16 * 1024 };

int addattr_l(struct nlmsghdr *, int most, int type, const void *, int size);
struct rtattr *addattr_nest(struct nlmsghdr *, int most, int type);
int addattr_nest_end(struct nlmsghdr *, struct rtattr *);
int parse_rtattr(struct rtattr *tb[], int most, struct rtattr *, int size);
int get_rate64(__u64 *, const char *);
int get_time(unsigned int *us, const char *);
int get_u32(__u32 *, const char *, int base);
int print_color_bool(int type, int color, const char *key, const char *format, bool);
int print_color_uint(int type, int color, const char *key, const char *format, unsigned int);
int print_color_rate(bool iec, int type, int color, const char *key, const char *format, unsigned long long);
int print_color_string(int type, int color, const char *key, const char *format, const char *);

static int wrong(const char *word, const char *value)
{
	fprintf(stderr, "Illegal \"%s\": %s\n", word, value ? value : "no value");
	return -1;
}

/* The words of SCE at the head of `argv`: how many they are, 0 none, -1 wrong. */
static int sce_words(int argc, char **argv, __u32 *ramp)
{
	if (!strcmp(*argv, "sce"))
		*ramp = 1;
	else if (!strcmp(*argv, "sce-single"))
		*ramp = SCE_SINGLE;
	else if (!strcmp(*argv, "no-sce"))
		*ramp = 0;
	else if (strcmp(*argv, "sce-thresh"))
		return 0;
	else if (argc < 2 || get_u32(ramp, argv[1], 10) || !*ramp || *ramp > SCE_SINGLE)
		return wrong(*argv, argc < 2 ? NULL : argv[1]);
	else
		return 2;
	return 1;
}

static void sce_print(__u32 ramp)
{
	if (ramp == 1)
		print_color_string(PRINT_ANY, COLOR_NONE, "sce", "%s ", "sce");
	else if (ramp == SCE_SINGLE)
		print_color_string(PRINT_ANY, COLOR_NONE, "sce", "%s ", "sce-single");
	else if (ramp)
		print_color_uint(PRINT_ANY, COLOR_NONE, "sce-thresh", "sce-thresh %u ", ramp);
}

/* A word of tc's that a value follows, and the attribute that has the value. */
struct word {
	const char *word;
	int type;
	enum { COUNT, TIME, RATE } value;
};

/* The attribute of the word and value at the head of `argv`, added to a message: 0, or -1 where they are wrong. */
static int add_value(const struct word *words, int argc, char **argv, struct nlmsghdr *message)
{
	const char *value = argc > 1 ? argv[1] : NULL;
	__u32 number = 0;
	__u64 rate = 0;

	while (words->word && strcmp(words->word, *argv))
		words++;
	if (!words->word)
		return wrong("parameter", *argv);
	if (!value || (words->value == RATE ? get_rate64(&rate, value) :
		       words->value == TIME ? get_time(&number, value) : get_u32(&number, value, 10)))
		return wrong(*argv, value);
	if (words->value == RATE)
		return addattr_l(message, MESSAGE, words->type, &rate, sizeof(rate));
	return addattr_l(message, MESSAGE, words->type, &number, sizeof(number));
}

static int cnq_parse(const struct qdisc_util *util, int argc, char **argv, struct nlmsghdr *message, const char *dev)
{
	static const struct word words[] = {
		{ "bandwidth", TCA_CNQ_RATE64, RATE }, { "target", TCA_CNQ_TARGET, TIME },
		{ "interval", TCA_CNQ_INTERVAL, TIME }, { "limit", TCA_CNQ_LIMIT, COUNT }, { 0 },
	};
	struct rtattr *nest = addattr_nest(message, MESSAGE, TCA_OPTIONS);

	(void)dev;
	while (argc > 0) {
		__u32 ramp = 0;
		__u64 unlimited = 0;
		int taken = sce_words(argc, argv, &ramp);

		if (taken < 0)
			return -1;
		/* SCE is a ramp in cnq_cobalt alone. */
		if (!strcmp(*argv, "sce-single") && strcmp(util->id, "cnq_cobalt"))
			return wrong("parameter", *argv);
		if (taken) {
			addattr_l(message, MESSAGE, TCA_CNQ_SCE, &ramp, sizeof(ramp));
		} else if (!strcmp(*argv, "unlimited")) {
			taken = 1;
			addattr_l(message, MESSAGE, TCA_CNQ_RATE64, &unlimited, sizeof(unlimited));
		} else {
			taken = 2;
			if (add_value(words, argc, argv, message))
				return -1;
		}
		argc -= taken;
		argv += taken;
	}
	addattr_nest_end(message, nest);
	return 0;
}

static int deltic_parse(const struct qdisc_util *util, int argc, char **argv, struct nlmsghdr *message,
			const char *dev)
{
	static const struct word words[] = {
		{ "target", TCA_DELTIC_TARGET, TIME }, { "sce-target", TCA_DELTIC_SCE_TARGET, TIME },
		{ "drop-target", TCA_DELTIC_DROP_TARGET, TIME }, { "limit", TCA_DELTIC_LIMIT, COUNT }, { 0 },
	};
	struct rtattr *nest = addattr_nest(message, MESSAGE, TCA_OPTIONS);

	(void)util;
	(void)dev;
	while (argc > 0) {
		__u32 sce = !strcmp(*argv, "sce");
		int taken = sce || !strcmp(*argv, "no-sce") ? 1 : 2;

		if (taken == 1)
			addattr_l(message, MESSAGE, TCA_DELTIC_SCE, &sce, sizeof(sce));
		else if (add_value(words, argc, argv, message))
			return -1;
		argc -= taken;
		argv += taken;
	}
	addattr_nest_end(message, nest);
	return 0;
}

static __u32 u32_of(const struct rtattr *attribute)
{
	return attribute ? *(const __u32 *)RTA_DATA(attribute) : 0;
}

static int cnq_print(const struct qdisc_util *util, FILE *file, struct rtattr *options)
{
	struct rtattr *tb[TCA_CNQ_MAX + 1];
	__u64 rate = 0;

	(void)util;
	(void)file;
	if (!options)
		return 0;
	parse_rtattr(tb, TCA_CNQ_MAX, RTA_DATA(options), RTA_PAYLOAD(options));
	if (tb[TCA_CNQ_RATE64])
		memcpy(&rate, RTA_DATA(tb[TCA_CNQ_RATE64]), sizeof(rate));
	if (rate)
		print_color_rate(false, PRINT_ANY, COLOR_NONE, "bandwidth", "bandwidth %s ", rate);
	else
		print_color_string(PRINT_ANY, COLOR_NONE, "bandwidth", "%s ", "unlimited");
	print_color_uint(PRINT_ANY, COLOR_NONE, "target", "target %uus ", u32_of(tb[TCA_CNQ_TARGET]));
	print_color_uint(PRINT_ANY, COLOR_NONE, "interval", "interval %uus ", u32_of(tb[TCA_CNQ_INTERVAL]));
	print_color_uint(PRINT_ANY, COLOR_NONE, "limit", "limit %up ", u32_of(tb[TCA_CNQ_LIMIT]));
	sce_print(u32_of(tb[TCA_CNQ_SCE]));
	return 0;
}

static void print_signals(__u32 ecn_mark, __u32 sce_mark, __u32 aqm_drop, __u32 drop_overlimit)
{
	print_color_uint(PRINT_ANY, COLOR_NONE, "ecn_mark", "  ecn_mark %u", ecn_mark);
	print_color_uint(PRINT_ANY, COLOR_NONE, "sce_mark", " sce_mark %u", sce_mark);
	print_color_uint(PRINT_ANY, COLOR_NONE, "aqm_drop", " aqm_drop %u", aqm_drop);
	print_color_uint(PRINT_ANY, COLOR_NONE, "drop_overlimit", " drop_overlimit %u", drop_overlimit);
}

static int cnq_print_statistics(const struct qdisc_util *util, FILE *file, struct rtattr *statistics)
{
	struct tc_cnq_xstats seen = { 0 };
	size_t size = statistics ? RTA_PAYLOAD(statistics) : 0;

	(void)file;
	if (!size)
		return 0;
	memcpy(&seen, RTA_DATA(statistics), size < sizeof(seen) ? size : sizeof(seen));
	print_signals(seen.ecn_mark, seen.sce_mark, seen.aqm_drop, seen.drop_overlimit);
	print_color_uint(PRINT_ANY, COLOR_NONE, "sparse", " sparse %u", seen.sparse);
	print_color_uint(PRINT_ANY, COLOR_NONE, "flows", " flows %u", seen.flows);
	print_color_uint(PRINT_ANY, COLOR_NONE, "delay", " delay %uus", seen.delay_us);
	if (!strcmp(util->id, "twin_codel_af"))
		print_color_uint(PRINT_ANY, COLOR_NONE, "second", " second %u", seen.second);
	return 0;
}

static int deltic_print(const struct qdisc_util *util, FILE *file, struct rtattr *options)
{
	struct rtattr *tb[TCA_DELTIC_MAX + 1];

	(void)util;
	(void)file;
	if (!options)
		return 0;
	parse_rtattr(tb, TCA_DELTIC_MAX, RTA_DATA(options), RTA_PAYLOAD(options));
	print_color_uint(PRINT_ANY, COLOR_NONE, "target", "target %uus ", u32_of(tb[TCA_DELTIC_TARGET]));
	print_color_uint(PRINT_ANY, COLOR_NONE, "sce-target", "sce-target %uus ", u32_of(tb[TCA_DELTIC_SCE_TARGET]));
	print_color_uint(PRINT_ANY, COLOR_NONE, "drop-target", "drop-target %uus ",
			 u32_of(tb[TCA_DELTIC_DROP_TARGET]));
	print_color_uint(PRINT_ANY, COLOR_NONE, "limit", "limit %up ", u32_of(tb[TCA_DELTIC_LIMIT]));
	if (u32_of(tb[TCA_DELTIC_SCE]))
		print_color_bool(PRINT_ANY, COLOR_NONE, "sce", "sce ", true);
	return 0;
}

static int deltic_print_statistics(const struct qdisc_util *util, FILE *file, struct rtattr *statistics)
{
	struct tc_deltic_xstats seen = { 0 };
	size_t size = statistics ? RTA_PAYLOAD(statistics) : 0;

	(void)util;
	(void)file;
	if (!size)
		return 0;
	memcpy(&seen, RTA_DATA(statistics), size < sizeof(seen) ? size : sizeof(seen));
	print_signals(seen.ecn_mark, seen.sce_mark, seen.aqm_drop, seen.drop_overlimit);
	print_color_uint(PRINT_ANY, COLOR_NONE, "delay", " delay %uus", seen.delay_us);
	print_color_uint(PRINT_ANY, COLOR_NONE, "jitter", " jitter %uus", seen.jitter_us);
	return 0;
}

#define QUEUE(kind, words)						\
	struct qdisc_util kind##_qdisc_util = {				\
		.id = #kind, .parse = words##_parse, .print = words##_print, \
		.print_statistics = words##_print_statistics,		\
	}

QUEUE(cnq_cobalt, cnq);
QUEUE(cnq_codel_af, cnq);
QUEUE(lfq_cobalt, cnq);
QUEUE(twin_codel_af, cnq);
QUEUE(deltic, deltic);

/* Cake is tc's own; ours takes and tells the words of SCE, and leaves the rest to it. */
static const struct qdisc_util *cake(void)
{
	return dlsym(RTLD_DEFAULT, "cake_qdisc_util");
}

static int cake_parse(const struct qdisc_util *util, int argc, char **argv, struct nlmsghdr *message, const char *dev)
{
	char **rest = calloc(argc + 1, sizeof(*rest));
	__u32 start = NLMSG_ALIGN(message->nlmsg_len), ramp = 0;
	struct rtattr *nest = (struct rtattr *)((char *)message + start);
	int left = 0, failed;
	bool given = false;

	(void)util;
	if (!rest)
		return wrong("cake", "out of memory");
	while (argc > 0) {
		int words = sce_words(argc, argv, &ramp);

		if (words < 0) {
			free(rest);
			return -1;
		}
		if (words)
			given = true;
		else
			rest[left++] = *argv;
		argc -= words ? words : 1;
		argv += words ? words : 1;
	}
	failed = cake()->parse(cake(), left, rest, message, dev);
	free(rest);
	if (failed || !given)
		return failed;
	addattr_l(message, MESSAGE, TCA_CAKE_SCE, &ramp, sizeof(ramp));
	return addattr_nest_end(message, nest) < 0;
}

static int cake_print(const struct qdisc_util *util, FILE *file, struct rtattr *options)
{
	struct rtattr *tb[TCA_CAKE_SCE + 1];

	(void)util;
	if (options) {
		parse_rtattr(tb, TCA_CAKE_SCE, RTA_DATA(options), RTA_PAYLOAD(options));
		sce_print(u32_of(tb[TCA_CAKE_SCE]));
	}
	return cake()->print(cake(), file, options);
}

static int cake_print_statistics(const struct qdisc_util *util, FILE *file, struct rtattr *statistics)
{
	struct rtattr *tb[TCA_CAKE_STATS_SCE_MARKED + 1];

	(void)util;
	if (statistics) {
		parse_rtattr(tb, TCA_CAKE_STATS_SCE_MARKED, RTA_DATA(statistics), RTA_PAYLOAD(statistics));
		if (tb[TCA_CAKE_STATS_SCE_MARKED])
			print_color_uint(PRINT_ANY, COLOR_NONE, "sce_mark", "  sce_mark %u\n",
					 u32_of(tb[TCA_CAKE_STATS_SCE_MARKED]));
	}
	return cake()->print_statistics(cake(), file, statistics);
}

struct qdisc_util cake_qdisc_util = {
	.id = "cake", .parse = cake_parse, .print = cake_print, .print_statistics = cake_print_statistics,
};
