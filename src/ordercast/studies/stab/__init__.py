"""[STAB] Guo, van Renesse, Vogels and Birman: stability protocols on the paper's tree network."""
