"""AITurbo, Optimus and queues for jobs with parameter servers."""
