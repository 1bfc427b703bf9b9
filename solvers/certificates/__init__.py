"""The front door `solve`, which checks every answer, and the search for certificates."""
