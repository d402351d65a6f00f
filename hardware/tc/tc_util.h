/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a q_NAME.c outside of iproute2 may use of tc: the functions that tc exports to the objects that it loads, and
 * the short forms of those that its own files use. `utils.h` is the same.
 */
#ifndef SOJOURN_TC_UTIL_H
#define SOJOURN_TC_UTIL_H

#include <linux/gen_stats.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct qdisc_util {
	struct qdisc_util *next;
	const char *id;
	int (*parse_qopt)(const struct qdisc_util *, int argc, char **argv, struct nlmsghdr *, const char *dev);
	int (*print_qopt)(const struct qdisc_util *, FILE *, struct rtattr *);
	int (*print_xstats)(const struct qdisc_util *, FILE *, struct rtattr *);
	int (*parse_copt)(const struct qdisc_util *, int argc, char **argv, struct nlmsghdr *, const char *dev);
	int (*print_copt)(const struct qdisc_util *, FILE *, struct rtattr *);
	int (*has_block)(const struct qdisc_util *, struct rtattr *, bool *has);
};

enum output_type { PRINT_FP = 1, PRINT_JSON = 2, PRINT_ANY = 4 };
enum color_attr { COLOR_NONE = 6 };

#define TCA_BUF_MAX (64 * 1024)

int addattr(struct nlmsghdr *, int most, int type);
int addattr8(struct nlmsghdr *, int most, int type, __u8);
int addattr16(struct nlmsghdr *, int most, int type, __u16);
int addattr32(struct nlmsghdr *, int most, int type, __u32);
int addattr64(struct nlmsghdr *, int most, int type, __u64);
int addattr_l(struct nlmsghdr *, int most, int type, const void *, int size);
struct rtattr *addattr_nest(struct nlmsghdr *, int most, int type);
int addattr_nest_end(struct nlmsghdr *, struct rtattr *);
int parse_rtattr(struct rtattr *tb[], int most, struct rtattr *, int size);

int get_u8(__u8 *, const char *, int base);
int get_u16(__u16 *, const char *, int base);
int get_u32(__u32 *, const char *, int base);
int get_u64(__u64 *, const char *, int base);
int get_rate(unsigned int *bytes_per_s, const char *);
int get_rate64(__u64 *bytes_per_s, const char *);
int get_size(unsigned int *bytes, const char *);
int get_time(unsigned int *us, const char *);
bool matches(const char *prefix, const char *whole);

void open_json_object(const char *key);
void close_json_object(void);
int print_color_bool(enum output_type, enum color_attr, const char *key, const char *format, bool);
int print_color_float(enum output_type, enum color_attr, const char *key, const char *format, double);
int print_color_int(enum output_type, enum color_attr, const char *key, const char *format, int);
int print_color_null(enum output_type, enum color_attr, const char *key, const char *format, const char *);
int print_color_rate(bool iec, enum output_type, enum color_attr, const char *key, const char *format,
		     unsigned long long bytes_per_s);
int print_color_size(enum output_type, enum color_attr, const char *key, const char *format, __u32 bytes);
int print_color_string(enum output_type, enum color_attr, const char *key, const char *format, const char *);
int print_color_u64(enum output_type, enum color_attr, const char *key, const char *format, uint64_t);
int print_color_uint(enum output_type, enum color_attr, const char *key, const char *format, unsigned int);

#define print_bool(type, ...) print_color_bool(type, COLOR_NONE, __VA_ARGS__)
#define print_float(type, ...) print_color_float(type, COLOR_NONE, __VA_ARGS__)
#define print_int(type, ...) print_color_int(type, COLOR_NONE, __VA_ARGS__)
#define print_null(type, ...) print_color_null(type, COLOR_NONE, __VA_ARGS__)
#define print_size(type, ...) print_color_size(type, COLOR_NONE, __VA_ARGS__)
#define print_string(type, ...) print_color_string(type, COLOR_NONE, __VA_ARGS__)
#define print_u64(type, ...) print_color_u64(type, COLOR_NONE, __VA_ARGS__)
#define print_uint(type, ...) print_color_uint(type, COLOR_NONE, __VA_ARGS__)
#define tc_print_rate(type, ...) print_color_rate(false, type, COLOR_NONE, __VA_ARGS__)

#define parse_rtattr_nested(tb, most, attribute) \
	parse_rtattr(tb, most, RTA_DATA(attribute), RTA_PAYLOAD(attribute))

static inline __u8 rta_getattr_u8(const struct rtattr *attribute)
{
	return *(const __u8 *)RTA_DATA(attribute);
}

static inline __u16 rta_getattr_u16(const struct rtattr *attribute)
{
	return *(const __u16 *)RTA_DATA(attribute);
}

static inline __u32 rta_getattr_u32(const struct rtattr *attribute)
{
	return *(const __u32 *)RTA_DATA(attribute);
}

static inline __u64 rta_getattr_u64(const struct rtattr *attribute)
{
	__u64 value;

	memcpy(&value, RTA_DATA(attribute), sizeof(value));
	return value;
}

#define NEXT_ARG()							\
	do {								\
		argv++;							\
		if (--argc <= 0) {					\
			fprintf(stderr, "Command line is not complete\n"); \
			return -1;					\
		}							\
	} while (0)

#endif
