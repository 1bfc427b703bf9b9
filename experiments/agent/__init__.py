"""The training agent that runs inside a user's PyTorch program."""
