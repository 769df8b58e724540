"""What a test runs in: its event loop and time limit, its ports, the memory that it holds."""
