"""Building blocks: matrix programs, counted columns, the power mean as a sum of costs."""
