"""Beyond the papers, up to 100,000 sites: Zipf groups, wide-area delays, churn by rate."""
