"""Solvers on the library of rounds, and what each part of the exact road is worth."""
