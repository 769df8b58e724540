"""How much memory this process holds."""

import ctypes
import gc
import resource
import sys
from contextlib import suppress
from pathlib import Path


def resident_kib() -> int:
    """Now, where the system tells; elsewhere the most that it has been.

    What is free is given back first where the allocator can do so: buffers that come and go leave
    holes, which say nothing about what is held.
    """
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most // 1024 if sys.platform == "darwin" else most
