"""Files of instances, allocations, models, job states and profiles (`FORMAT.md`)."""
