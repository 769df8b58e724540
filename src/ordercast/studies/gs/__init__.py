"""[GS] Garcia-Molina and Spauster: forests, costs and frames beside the tables and graphs."""
