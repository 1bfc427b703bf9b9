"""Programs of the classical problems: AlloX's matching, the Nash product."""
