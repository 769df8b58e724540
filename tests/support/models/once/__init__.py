"""Requests that are delivered once: the rule, a small world that attacks it, and its mutants."""
