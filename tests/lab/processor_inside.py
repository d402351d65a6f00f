# SPDX-License-Identifier: Apache-2.0
"""What a program of a simulated machine sees of a processor: machine code in memory, called by ctypes."""

from __future__ import annotations

import ctypes
import json
import mmap
import time
from pathlib import Path

#: rdtsc; the counter's halves become one number.
_COUNTER = bytes.fromhex("0f31 48c1e220 4809d0 c3")
#: rdtscp likewise; the processor's number goes to the address in the first argument.
_COUNTER_AND_NUMBER = bytes.fromhex("0f01f9 890f 48c1e220 4809d0 c3")
#: cpuid for leaf and subleaf; the four registers go to the address in the third argument.
_FEATURES = bytes.fromhex("53 4989d0 89f8 89f1 0fa2 418900 41895804 41894808 4189500c 5b c3")


def main() -> None:
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    memory[0 : len(_COUNTER)] = _COUNTER
    memory[64 : 64 + len(_COUNTER_AND_NUMBER)] = _COUNTER_AND_NUMBER
    memory[128 : 128 + len(_FEATURES)] = _FEATURES
    counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(start)
    numbered = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint32))(start + 64)
    features = ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32))(start + 128)

    readings = []
    number = ctypes.c_uint32(77)
    for _ in range(3):
        readings.append([time.monotonic_ns(), counter(), numbered(ctypes.byref(number)), time.monotonic_ns()])
        time.sleep(0.1)
    first = counter()
    while (waited := counter() - first) < 1000:
        pass
    leaves = {}
    for leaf, subleaf in ((0, 0), (1, 0), (4, 0), (7, 0), (13, 0), (0x80000002, 0), (0x40000000, 0)):
        registers = (ctypes.c_uint32 * 4)()
        features(leaf, subleaf, registers)
        leaves[f"{leaf:#x} {subleaf}"] = list(registers)
    cpuinfo = Path("/proc/cpuinfo").read_text()
    seen = {"readings": readings, "waited": waited, "number": number.value, "leaves": leaves, "cpuinfo": cpuinfo}
    Path("/evidence/processor.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main()
