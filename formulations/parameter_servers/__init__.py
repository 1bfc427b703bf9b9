"""The least total remaining service of parameter-server jobs, without and with nodes."""
