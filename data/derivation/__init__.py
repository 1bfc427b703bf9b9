"""Scripts that derive the shipped documents from published measurements."""
