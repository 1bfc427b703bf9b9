"""Lists of submitted jobs: published traces and seeded generators."""
