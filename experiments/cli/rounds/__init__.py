"""Commands on one round: solve, check, generate, compare, make room, write programs and pages."""
