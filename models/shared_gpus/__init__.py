"""Jobs that share a GPU (Gandiva, AntMan): speeds, pairs, opportunistic jobs and their hosts."""
