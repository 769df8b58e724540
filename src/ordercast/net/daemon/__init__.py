"""A site as a process of its own: its local socket for clients, its health and metrics, its log."""
