"""Running HiGHS within limits, and the price-and-core method on top of it."""
