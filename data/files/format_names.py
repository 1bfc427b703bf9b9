"""The names of file formats that several readers know."""

ALLOCATION_FORMAT = "goodalloc-allocation"
RESULT_FORMAT = "goodalloc-result"
