/* SPDX-License-Identifier: Apache-2.0 */
#include <net/tcp.h>
