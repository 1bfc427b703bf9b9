"""Studies of Themis, SLAQ, AlloX and heSRPT."""
