"""Stand-alone checkers of certificates, which import nothing of goodalloc."""
