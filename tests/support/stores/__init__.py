"""Stores for tests: records to put in, stores filled by hand and exported, killed writers."""
