"""[STAB] Guo, van Renesse, Vogels and Birman: their tables and figures on stability protocols."""
