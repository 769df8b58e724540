"""What epochs tell of their streams: reports and ends, in parts, and the entries that are kept."""
