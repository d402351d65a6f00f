/* SPDX-License-Identifier: GPL-2.0 */
#include "tc_util.h"
