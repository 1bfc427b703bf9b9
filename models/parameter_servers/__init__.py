"""Jobs with parameter servers (Optimus, AITurbo): configurations, step times, service."""
