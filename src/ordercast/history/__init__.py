"""The exchange schema of histories: rows, tables, Parquet reader and writer (docs/history.md)."""
