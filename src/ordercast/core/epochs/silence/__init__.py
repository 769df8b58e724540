"""Silent sites: what sites hear of each other, how the manager judges, how long excluded sites
wait."""
