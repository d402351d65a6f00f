// SPDX-License-Identifier: Apache-2.0
/* Flows whose ends are programs of their own. */
#ifndef PROGRAMS_H
#define PROGRAMS_H

#include <sys/types.h>

pid_t launch(const char *space, const char *command);
void start_receiver(int n, const char *command);
void end_program(pid_t *pid, int n);

#endif
