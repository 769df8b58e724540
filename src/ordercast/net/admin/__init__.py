"""What a client and a daemon say to each other over a local socket. Only those two enter."""
