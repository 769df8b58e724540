"""ordercast beside ZeroMQ, Corosync, Redis, NATS and etcd, as far as they are installed.

    python bench/beside.py [--quick] [--members 3] [--payload 100] [--only NAME] [--json]

Each system has its file in `bench/peers/`, which says how it is used; this starts `bench.peers`.
"""

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    os.chdir(Path(__file__).resolve().parent.parent)
    os.execv(sys.executable, [sys.executable, "-m", "bench.peers", *sys.argv[1:]])
