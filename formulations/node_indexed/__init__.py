"""The readable node-indexed programs: in Pyomo and in matrix form."""
