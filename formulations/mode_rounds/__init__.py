"""Rounds whose jobs have modes (GPU types, cores, memory): choices, aggregate, cuts."""
