"""Who is silent: what sites hear, how the manager judges, how long excluded sites wait."""
