"""Statistics, tables, axes and pictures shared by all reports."""
