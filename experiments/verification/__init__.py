"""The stand-alone checkers of certificates; they import nothing of goodalloc."""
