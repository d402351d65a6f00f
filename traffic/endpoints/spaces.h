// SPDX-License-Identifier: Apache-2.0
/* Network namespaces, their settings and their devices. */
#ifndef SPACES_H
#define SPACES_H

#include "common.h"

enum { CARRIER_MS = 10000 };

void enter(const char *name);
void set(const char *name, int value);
void prepare(const char *device, bool offloads);

#endif
