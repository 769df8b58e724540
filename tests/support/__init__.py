"""What several test rooms share: strategies, generators, oracles."""
