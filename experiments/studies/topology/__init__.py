"""Studies of clusters that are trees."""
