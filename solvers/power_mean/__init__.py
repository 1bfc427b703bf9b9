"""Any power mean through an oracle that minimises a sum of costs."""
