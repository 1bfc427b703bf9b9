"""Classical scheduling problems behind Themis, SLAQ, AlloX and heSRPT, each with its checker."""
