"""Who is silent: what a site hears, what the manager makes of it, how long an excluded site waits."""
