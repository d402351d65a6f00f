// SPDX-License-Identifier: Apache-2.0
/* System calls that wait to be made by one, which the kernel of the guest takes (hardware/kernel/patches). */
#ifndef CALLS_H
#define CALLS_H

#include "sockets.h"

#define LATER(caller, number, ...) later(caller, number, (const unsigned long[6]){ __VA_ARGS__ })

void later(const struct watch *caller, unsigned long number, const unsigned long arguments[6]);
long make_calls(void);

#endif
