"""What the agent reads of a gradient, and the norms it has from that."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.agent.gradient_meter import GradientMeter
from goodalloc.experiments.agent.gradient_sample import BLOCK, GradientSample, equal_shares

SHAPES = ((40, 50), (7,), (300, BLOCK), (3, 5, 5), (2003,))


def drawn(torch: Any, seed: int) -> list[Any]:
    """Tensors of several sizes, and of another size of numbers each."""
    generator = torch.Generator().manual_seed(seed)
    return [
        10.0**index * torch.randn(shape, generator=generator) for index, shape in enumerate(SHAPES)
    ]


@given(st.lists(st.integers(0, 1000), max_size=9), st.integers(0, 3000))
def test_shares_are_equal_but_for_those_that_can_take_no_more(sizes: list[int], most: int) -> None:
    """All is given out, or all that can be taken."""
    found = equal_shares(sizes, most)
    assert sum(found) == min(most, sum(sizes))
    hungry = [share for share, size in zip(found, sizes, strict=True) if share < size]
    assert all(share <= size for share, size in zip(found, sizes, strict=True))
    if hungry:
        assert max(hungry) - min(hungry) <= 1
        assert max(found) <= max(hungry)


def test_a_negative_share_is_refused() -> None:
    """By name."""
    with pytest.raises(ValueError, match="Shares: most is -1"):
        equal_shares([1, 2], -1)


@pytest.mark.parametrize("most", [None, 10**6])
def test_without_a_limit_everything_is_read(torch: Any, most: int | None) -> None:
    """As it is, one parameter after the other; a gradient that is not there is zeros."""
    tensors = drawn(torch, 0)
    sample = GradientSample(tensors, most, seed=0)
    reading = sample.reading()
    sample.read([*tensors[:-1], None], reading)
    reading.weigh(sample.factors)
    flat = torch.cat([one.reshape(-1) for one in tensors])
    flat[-2003:] = 0.0
    assert sample.factors is None
    assert torch.equal(reading.weighted, flat)


def test_a_sample_is_of_the_size_that_was_asked_for_and_always_the_same(torch: Any) -> None:
    """Small tensors whole; blocks of the large ones, of every part of them."""
    tensors = drawn(torch, 0)
    samples = [GradientSample(tensors, 1000, seed) for seed in (3, 3, 4)]
    readings = [one.reading() for one in samples]
    for sample, reading in zip(samples, readings, strict=True):
        sample.read(tensors, reading)
        assert 1000 - len(SHAPES) * BLOCK < sample.size <= 1000
        assert torch.equal(reading.parts[1], tensors[1])
        blocks = tensors[2].reshape(-1, BLOCK).tolist()
        rows = [blocks.index(one) for one in reading.parts[2].tolist()]
        assert rows == sorted(rows)
        assert max(rows) - min(rows) > 0.9 * 300
    assert torch.equal(readings[0].raw, readings[1].raw)
    assert not torch.equal(readings[0].raw, readings[2].raw)


def test_every_tensor_has_a_block_however_few_coordinates_are_wanted(torch: Any) -> None:
    """One of each that has more, of the others everything."""
    sample = GradientSample(drawn(torch, 0), 1, seed=0)
    assert sample.size == BLOCK + 7 + BLOCK + BLOCK + BLOCK


def test_norms_of_samples_are_unbiased(torch: Any) -> None:
    """The mean over many seeds is the norm of everything."""
    tensors, others = drawn(torch, 0), drawn(torch, 1)
    tensors, others = ([one[:4] for one in some] for some in (tensors, others))
    for one, other in zip(tensors, others, strict=True):
        other += one
    squares, products = [], []
    for seed in range(400):
        sample = GradientSample(tensors[:3], 250, seed)
        one, other = sample.reading(), sample.reading()
        for some, reading in ((tensors[:3], one), (others[:3], other)):
            sample.read(some, reading)
            reading.weigh(sample.factors)
        squares.append(one.dot(one))
        products.append(one.dot(other))
    pairs = list(zip(tensors[:3], others[:3], strict=True))
    for found, expected in (
        (squares, sum((one * one).sum() for one, _ in pairs)),
        (products, sum((one * other).sum() for one, other in pairs)),
    ):
        values = torch.stack(found)
        error = values.std() / len(values) ** 0.5
        assert abs(values.mean() - expected) < 4.0 * error + 1e-4 * expected
        assert error < 0.02 * expected


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("passes", [1, 3])
def test_norms_are_those_of_the_gradients_of_the_passes(torch: Any, kind: str, passes: int) -> None:
    """Of their sum, as autograd makes it, the meter tells them apart."""
    torch.manual_seed(0)
    module = torch.nn.Linear(6, 3)
    optimiser = getattr(torch.optim, kind)(module.parameters(), lr=0.1)
    meter = GradientMeter(optimiser, 1)
    mean: Any = None
    for step in range(7):
        before = mean
        meter.begin(passes)
        losses = [module(torch.randn(4, 6)).square().mean() for _ in range(passes)]
        gradients = [
            torch.cat(
                [
                    one.reshape(-1)
                    for one in torch.autograd.grad(
                        loss, list(module.parameters()), retain_graph=True
                    )
                ]
            )
            for loss in losses
        ]
        for loss in losses:
            (loss / passes).backward()
            meter.take_pass()
        norms = meter.finish()
        assert norms is not None
        weights = 1.0 if meter.state()["weights"] is None else meter.state()["weights"]
        local = sum((weights * one).square().sum().item() for one in gradients)
        mean = torch.stack(gradients).mean(dim=0)
        assert norms.local.item() == pytest.approx(local, rel=1e-4)
        assert norms.mean.item() == pytest.approx((weights * mean).square().sum().item(), rel=1e-4)
        if passes == 1 and before is not None:
            product = (weights * mean).dot(weights * before).item()
            assert norms.product.item() == pytest.approx(product, rel=1e-4)
            previous = (weights * before).square().sum().item()
            assert norms.previous.item() == pytest.approx(previous, rel=1e-4)
        else:
            assert norms.product is None
        optimiser.step()
        meter.refresh(step + 1)
    assert (meter.state()["weights"] is None) == (kind == "SGD")


def test_a_state_of_other_coordinates_is_left_out(torch: Any) -> None:
    """A job that goes on with another limit begins its differences anew."""
    module = torch.nn.Linear(40, 30)
    optimiser = torch.optim.Adam(module.parameters())
    meters = [GradientMeter(optimiser, 1, most) for most in (None, 200, 200)]
    for meter in meters[:2]:
        meter.begin(1)
        module(torch.ones(2, 40)).sum().backward()
        assert meter.finish() is not None
        meter.refresh(5)
    meters[2].load(meters[0].state())
    assert meters[2].state() == {"weights": None, "previous": None, "previous_square": None} | {
        "weights": meters[2].state()["weights"]
    }
    meters[2].load(meters[1].state())
    for name in ("weights", "previous"):
        assert torch.equal(meters[1].state()[name], meters[2].state()[name])
