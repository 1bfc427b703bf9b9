"""Command line `goodalloc`."""
