"""[SWAP] Swap objects: latency, locality, and the joining and leaving of §6.2."""
