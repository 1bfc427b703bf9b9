"""Time shares as linear and cone programs, and their certificates."""
