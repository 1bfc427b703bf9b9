r"""Partial predictability: when to trust the predictions of a job (AITurbo).

Training is only partially predictable, and predictable jobs are unpredictable at first. AITurbo
(HPDC'21) decides by a classifier; the code of a follow-on of the same group treats a job as
predictable once the confidence of the classifier reaches 0.5. The rule of the paper itself is not
known. This is a documented reading of it: a job is predictable when the classifier and its own loss
curve say so,

.. math::

    1 - P(\mathrm{unpredictable}) \ge \tau \quad \text{and} \quad e \le \varepsilon          (1)

with *e* the relative error of what the loss curve fitted to the job says of its steps (equation (1)
of `losses/loss_forecast.py`), infinite until there is one, so that every job starts unpredictable.
With :math:`\varepsilon = \infty` the classifier alone decides.

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from goodalloc.models.support.validation import require_number, require_share

#: Confidence from which on the follow-on's code trusts the classifier.
THRESHOLD = 0.5

#: Relative error up to which a loss curve is trusted; ours, none is published.
LARGEST_ERROR = 0.25


def is_predictable(
    confidence: float,
    curve_error: float,
    *,
    threshold: float = THRESHOLD,
    largest_error: float = LARGEST_ERROR,
) -> bool:
    """Return True if a job is predictable by (1).

    Parameters
    ----------
    confidence
        One less the probability that the job is unpredictable.
    curve_error
        Relative error of what its loss curve says, infinite where none has been fitted.
    threshold
        Least confidence.
    largest_error
        Largest error; infinite if the loss curve does not matter.

    Raises
    ------
    ValueError
        If a probability is not from 0 to 1, or an error is negative or NaN.

    Examples
    --------
    >>> from goodalloc.models.parameter_servers import is_predictable
    >>> is_predictable(0.8, curve_error=0.1)
    True
    """
    for name, share in (("confidence", confidence), ("threshold", threshold)):
        require_share(f"Predictability: {name}", share)
    for name, error in (("curve_error", curve_error), ("largest_error", largest_error)):
        require_number(f"Predictability: {name}", error, minimum=0.0, finite=False)
    return confidence >= threshold and curve_error <= largest_error
