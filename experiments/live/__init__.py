"""The scheduler and launcher of real jobs."""
