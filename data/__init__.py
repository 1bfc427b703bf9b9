"""Jobs, clusters and workloads as validated data, with readers of the formats in use."""
