from .certificate_file import write_certificate as write_certificate
from .column_certificate import write_column_certificate as write_column_certificate
from .column_certificate import (
    write_mode_column_certificate as write_mode_column_certificate,
)
from .domain_packing import DomainCut as DomainCut
from .domain_packing import DomainPacking as DomainPacking
from .proofs import as_good as as_good
from .proofs import strongest as strongest
from .resolved_tree import resolved_digest as resolved_digest
from .resolved_tree import resolved_to_dict as resolved_to_dict
from .resolved_tree import write_resolved as write_resolved
from .solve import status_of as status_of
from .tree_certificate import certify_tree as certify_tree
from .tree_certificate_file import write_tree_certificate as write_tree_certificate
