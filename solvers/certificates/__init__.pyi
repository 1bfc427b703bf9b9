from .certificate_file import write_certificate as write_certificate
from .proofs import as_good as as_good
from .proofs import strongest as strongest
from .solve import status_of as status_of
