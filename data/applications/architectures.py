"""Families and sizes of the models that the applications train, as known at submission.

References
----------
He et al., "Deep Residual Learning for Image Recognition", CVPR 2016 (ResNet-18 and ResNet-50; sizes
    of the usual implementations for 10 and 1,000 classes).
Redmon and Farhadi, "YOLOv3: An Incremental Improvement", arXiv:1804.02767.
Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding",
    NAACL 2019 (BERT-base).
Amodei et al., "Deep Speech 2: End-to-End Speech Recognition in English and Mandarin", ICML 2016.
He et al., "Neural Collaborative Filtering", WWW 2017.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping


class Architecture(NamedTuple):
    """Family of a model, and its number of parameters; None where implementations differ."""

    family: str = ""
    parameters: float | None = None


#: Architectures by application.
ARCHITECTURES: Mapping[str, Architecture] = {
    "cifar10": Architecture("convolution", 11.2e6),
    "imagenet": Architecture("convolution", 25.6e6),
    "yolov3": Architecture("convolution", 62.0e6),
    "bert": Architecture("transformer", 110.0e6),
    "deepspeech2": Architecture("recurrent"),
    "ncf": Architecture("embedding"),
}
