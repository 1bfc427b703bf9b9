"""How long things take (`make bench`)."""
