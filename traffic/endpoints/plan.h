// SPDX-License-Identifier: Apache-2.0
/* The plan, which comes on stdin: traffic/endpoints/__init__.py writes and describes it. */
#ifndef PLAN_H
#define PLAN_H

void read_plan(void);

#endif
