from .certificate_file import write_certificate as write_certificate
from .column_certificate import write_column_certificate as write_column_certificate
from .proofs import as_good as as_good
from .proofs import strongest as strongest
from .solve import status_of as status_of
