"""[TOM] Dommel and Garcia-Luna-Aceves: seven protocols run beside the paper's formulas."""
