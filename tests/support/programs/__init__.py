"""Programs that tests start by path, as processes of their own."""
