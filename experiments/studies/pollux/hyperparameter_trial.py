"""Trial of a hyper-parameter search: the training of a small network.

Pollux trained ResNet18 on CIFAR-10. Without the GPUs for that, a network of one hidden layer learns
scikit-learn's 8 × 8 images of digits: the accuracies are real, but of another, smaller task.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 5.3.4. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Any

#: Passes over the training images, and images per step.
EPOCHS, BATCH = 30, 32


class Hyperparameters(NamedTuple):
    """Hyper-parameters of a trial.

    Attributes
    ----------
    learning_rate, momentum
        Parameters of stochastic gradient descent with Nesterov's momentum.
    weight_decay
        Factor of half the squared norm of all weights in the loss.
    width
        Number of hidden units.
    """

    learning_rate: float
    momentum: float
    weight_decay: float
    width: int


def train(hyperparameters: Hyperparameters, seed: int) -> float:
    """Train a network, and return its accuracy on the held-out images.

    Parameters
    ----------
    hyperparameters
        Hyper-parameters of the training.
    seed
        Seed of the split into two halves, the initial weights and the order of the images: with the
        same seed the accuracy depends on the hyper-parameters alone.

    Returns
    -------
    float
        From 0 to 1; 0 where the training diverges.
    """
    import numpy as np
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier
    from threadpoolctl import threadpool_limits

    pictures, held_out, digits, expected = _halves(seed)
    network = MLPClassifier(
        (hyperparameters.width,),
        solver="sgd",
        alpha=hyperparameters.weight_decay,
        learning_rate_init=hyperparameters.learning_rate,
        momentum=hyperparameters.momentum,
        batch_size=BATCH,
        max_iter=EPOCHS,
        random_state=seed,
    )
    # Every trial has the same number of epochs, whether or not it has converged by then.
    with threadpool_limits(1), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            network.fit(pictures, digits)
        except ValueError as error:
            if "non-finite" in str(error):
                return 0.0
            raise
        return float(network.score(held_out, expected))


@lru_cache(maxsize=8)
def _halves(seed: int) -> tuple[Any, Any, Any, Any]:
    """Return the images for training and for validation, and their digits."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    pictures, digits = load_digits(return_X_y=True)
    halves = train_test_split(
        pictures / 16.0, digits, test_size=0.5, random_state=seed, stratify=digits
    )
    return tuple(halves)
