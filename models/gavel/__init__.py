"""Time shares of GPU types (Gavel): the problem, its goals and the table of rates."""
