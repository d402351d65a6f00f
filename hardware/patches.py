# SPDX-License-Identifier: Apache-2.0
"""Changes to the kernel source, found by what the code says and never by line number."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hardware.kconfig import FRAGMENTS
from hardware.machine.cache import BuildError


class PatchError(BuildError):
    """The source does not look as an edit expects."""


@dataclass(frozen=True)
class Edit:
    """One place in one file: `pattern` must match exactly once and becomes `replacement` (groups: \\1).

    `done` matches a source in which the change is already there (taken upstream); such a file is left alone.
    """

    path: str
    why: str
    pattern: str
    replacement: str
    done: str | None = None

    def apply(self, text: str) -> str:
        """The changed text. Raises PatchError when the place is missing or ambiguous."""
        changed, count = re.subn(self.pattern, self.replacement, text)
        if count == 1:
            return changed
        if count == 0 and self.done and len(re.findall(self.done, text)) == 1:
            return text
        raise PatchError(
            f"{self.path}: {self.why}: expected the place exactly once, found it {count} times; "
            "this kernel source needs another edit in hardware/patches.py"
        )


def _addition(name: str) -> str:
    """The text of a file that goes into the kernel source, as a replacement for an Edit."""
    return (FRAGMENTS / name).read_text().replace("\\", r"\\") + "\n"


EDITS = (
    Edit(
        "net/ipv4/tcp_output.c",
        "send data of an ECT(1) congestion control as ECT(1)",
        r"(if \(!tcp_accecn_ace_fail_recv\(tp\) &&\s+!tcp_accecn_ace_fail_send\(tp\)\)\s+)"
        r"INET_ECN_xmit\(sk\);",
        r"\1INET_ECN_xmit_ect_1_negotiation(sk);",
        done=r"!tcp_accecn_ace_fail_send\(tp\)\)\s+INET_ECN_xmit_ect_1_negotiation\(sk\);",
    ),
    Edit(
        "net/ipv4/tcp_cong.c",
        "keep ECT(1) when the congestion control starts",
        r"(if \(tcp_ca_needs_ecn\(sk\)\)\s+)INET_ECN_xmit\(sk\);",
        r"\1INET_ECN_xmit_ect_1_negotiation(sk);",
        done=r"if \(tcp_ca_needs_ecn\(sk\)\)\s+INET_ECN_xmit_ect_1_negotiation\(sk\);",
    ),
    Edit(
        "net/ipv4/Kconfig",
        "offer TCP Prague",
        r"(?m)^(?=config TCP_CONG_BBR\n)",
        _addition("Kconfig.prague"),
        done=r"(?m)^config TCP_CONG_PRAGUE$",
    ),
    Edit(
        "net/ipv4/Makefile",
        "build TCP Prague",
        r"(?m)^(?=obj-\$\(CONFIG_TCP_CONG_DCTCP\) \+= tcp_dctcp\.o\n)",
        "obj-$(CONFIG_TCP_CONG_PRAGUE) += tcp_prague.o\n",
        done=r"(?m)^obj-\$\(CONFIG_TCP_CONG_PRAGUE\) \+= tcp_prague\.o$",
    ),
    Edit(
        "net/core/skbuff.c",
        "take the flow's hash away from a packet that enters another namespace: no wire carries it, and the hash of "
        "what a tunnel hides would tell its flows apart",
        r"(\tskb->mark = 0;\n\tskb_clear_tstamp\(skb\);\n)(\})",
        r"\1\tskb_clear_hash(skb);\n\2",
    ),
    Edit(
        "arch/um/Kconfig",
        "tick 250 times a second as distribution kernels do (at 100, PIE would round its 15 ms up to 20)",
        r"(config HZ\n\tint\n\tdefault )100\n",
        r"\g<1>250\n",
        done=r"config HZ\n\tint\n\tdefault 250\n",
    ),
    Edit(
        "arch/um/kernel/trap.c",
        "fault in the pages behind a write fault too",
        r"(/\*\n \* Note this is constrained to return 0)",
        _addition("fault_ahead.c") + r"\1",
    ),
    Edit(
        "arch/um/kernel/trap.c",
        "use it where a fault was handled",
        r"(\t\} while \(!pte_present\(\*pte\)\);\n)(\terr = 0;\n)",
        r"\1\tif (is_user && is_write)\n\t\tfault_ahead(vma, address);\n\2",
    ),
    Edit(
        "arch/um/kernel/time.c",
        "let a reading of the clock cost 16 ns of simulated time (at 256, programs that read it often move it)",
        r"time_travel_update_time_rel\(TIMER_MULTIPLIER\);",
        "time_travel_update_time_rel(16);",
    ),
    Edit(
        "arch/um/kernel/skas/syscall.c",
        "let a refused system call cost 50 ns of simulated time (at 1 us, event loops that read until EAGAIN move it)",
        r"um_udelay\(1\);",
        "um_ndelay(50);",
    ),
    Edit(
        "arch/um/kernel/skas/syscall.c",
        "and one that gives nothing (else a thread that reads at the end of a stream, or yields, until another has "
        "seen it stops the time in which that would be)",
        r"if \(IS_ERR_VALUE\(ret\) &&",
        "if ((IS_ERR_VALUE(ret) ||\n"
        "\t\t     (ret == 0 && (syscall == __NR_read || syscall == __NR_recvfrom ||\n"
        "\t\t\t\t   syscall == __NR_recvmsg || syscall == __NR_sched_yield))) &&",
    ),
    Edit(
        "arch/um/kernel/skas/syscall.c",
        "let a poll that does not wait cost 1 us (else a loop that polls until a time is reached is long)",
        r"(\t\tPT_REGS_SET_SYSCALL_RETURN\(regs, ret\);\n)",
        r"\1\n"
        r"\t\tif (time_travel_mode == TT_MODE_INFCPU &&\n"
        r"\t\t    (((syscall == __NR_epoll_wait || syscall == __NR_epoll_pwait) &&\n"
        r"\t\t      (int)UPT_SYSCALL_ARG4(&regs->regs) == 0) ||\n"
        r"\t\t     (syscall == __NR_poll && (int)UPT_SYSCALL_ARG3(&regs->regs) == 0)))\n"
        r"\t\t\tum_ndelay(1000);\n",
    ),
    Edit(
        "arch/x86/um/vdso/vma.c",
        "keep a page with the simulated time",
        r"(?=static int __init init_vdso\(void\))",
        _addition("clock_page.c"),
    ),
    Edit(
        "arch/x86/um/vdso/vma.c",
        "name what that needs",
        r"#include <linux/init\.h>\n",
        "#include <linux/init.h>\n#include <linux/time-internal.h>\n#include <linux/timekeeping.h>\n",
    ),
    Edit(
        "arch/x86/um/vdso/vma.c",
        "make that page at boot",
        r"(\tum_vdso = alloc_page\(GFP_KERNEL\);\n\tif \(!um_vdso)(\))",
        r"\tum_clock = alloc_page(GFP_KERNEL | __GFP_ZERO);\n\1 || !um_clock\2",
    ),
    Edit(
        "arch/x86/um/vdso/vma.c",
        "give that page to each program",
        r"(\tmmap_write_unlock\(mm\);\n\n\treturn IS_ERR\(vma\) \? PTR_ERR\(vma\) : )0;",
        r"\tint clock = IS_ERR(vma) ? 0 : install_um_clock(mm);\n\n\1clock;",
    ),
    Edit(
        "arch/x86/um/vdso/um_vdso.c",
        "read the clock in that page",
        r"(?=int __vdso_clock_gettime\(clockid_t clock, struct __kernel_timespec \*ts\)\n\{)",
        _addition("clock_reader.c"),
    ),
    Edit(
        "arch/x86/um/vdso/um_vdso.c",
        "use it for clock_gettime",
        r"(struct __kernel_timespec \*ts\)\n\{\n\tlong ret;\n)",
        r"""\1	unsigned long long now = um_clock_read(clock);

	if (now) {
		ts->tv_sec = now / 1000000000;
		ts->tv_nsec = now % 1000000000;
		return 0;
	}
""",
    ),
    Edit(
        "arch/x86/um/vdso/um_vdso.c",
        "use it for gettimeofday",
        r"(struct timezone \*tz\)\n\{\n\tlong ret;\n)",
        r"""\1	unsigned long long now = tz || !tv ? 0 : um_clock_read(0);

	if (now) {
		tv->tv_sec = now / 1000000000;
		tv->tv_usec = now % 1000000000 / 1000;
		return 0;
	}
""",
    ),
    Edit(
        "arch/um/os-Linux/skas/process.c",
        "renew the page's time before a program goes on",
        r"(\t\tcurrent_mm_sync\(\);\n)(\n\t\tif \(using_seccomp\) \{)",
        r"\1\t\tum_clock_update();\n\2",
    ),
    Edit(
        "arch/um/os-Linux/skas/process.c",
        "name what renews it",
        r"static int unscheduled_userspace_iterations;\n",
        "static int unscheduled_userspace_iterations;\nextern void um_clock_update(void);\n",
    ),
    Edit(
        "arch/um/os-Linux/util.c",
        "take random numbers from a seed",
        r"(ssize_t os_getrandom\(void \*buf, size_t len, unsigned int flags\)\n\{\n)",
        _addition("seeded_random.c")
        + r"""\1	const char *seed = getenv("SOJOURN_SEED");

	if (seed)
		return seeded_random(seed, buf, len);
""",
    ),
)


def apply_all(source: Path, edits: tuple[Edit, ...] = EDITS) -> None:
    """Apply the edits to a kernel source tree. Raises PatchError at the first that does not fit."""
    for edit in edits:
        path = source / edit.path
        if not path.is_file():
            raise PatchError(f"{edit.path}: {edit.why}: the kernel source has no such file")
        path.write_text(edit.apply(path.read_text()))
