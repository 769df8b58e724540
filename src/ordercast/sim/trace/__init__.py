"""A run as it looks from outside: frames, crashes, cuts, deliveries; asked, drawn and exported."""
