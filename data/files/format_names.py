"""Names of file formats that several readers accept."""

ALLOCATION_FORMAT = "goodalloc-allocation"
RESULT_FORMAT = "goodalloc-result"
