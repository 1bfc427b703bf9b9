"""Themis, SLAQ, AlloX and heSRPT."""
