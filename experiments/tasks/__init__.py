"""Networks that `goodalloc measure` can train."""
