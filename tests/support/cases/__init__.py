"""Cases to test with: group tables, records, frames, histories, schedules; drawn or written."""
