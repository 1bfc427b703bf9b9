"""How a running job sets its batch size and learning rate, by gradient statistics."""
