"""Training tasks of the size that GPUs train: they have the published numbers of weights."""

from __future__ import annotations

import pytest

from goodalloc.experiments.tasks.task import SMALL, TASKS, find_task

torch = pytest.importorskip("torch", reason="needs goodalloc[measure]")

#: Weights as published: of ResNet-50 (torchvision's), BERT-base with its head for masked tokens and
#: both sizes of GPT-2 (Hugging Face's), and MLPerf's recommendation benchmark.
PUBLISHED = {
    "resnet50": 25_557_032,
    "bert-base": 109_514_298,
    "gpt-124m": 124_439_808,
    "gpt-350m": 354_823_168,
    "neumf-20m": 31_832_577,
}


def test_every_task_is_small_or_has_a_published_size() -> None:
    """None is left out below."""
    assert {*SMALL, *PUBLISHED} == set(TASKS)


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_task_of_real_size_has_the_published_weights_and_a_loss(name: str) -> None:
    """Without memory for either: shapes alone, forward and backward."""
    task = find_task(name)
    with torch.device("meta"):
        module = task.make_module()
    assert sum(weight.numel() for weight in module.parameters()) == PUBLISHED[name]
    batch = task.draw_batch(2, torch.Generator().manual_seed(0))
    again = task.draw_batch(2, torch.Generator().manual_seed(0))
    assert all(torch.equal(*pair) for pair in zip(batch, again, strict=True))
    loss = task.loss(module, tuple(part.to("meta") for part in batch))
    assert loss.shape == ()
    loss.backward()
    assert all(weight.grad is not None for weight in module.parameters())


def test_bert_is_asked_for_the_tokens_that_are_masked_alone() -> None:
    """About 15 % of them, each of which the network does not see."""
    texts, tokens = find_task("bert-base").draw_batch(50, torch.Generator().manual_seed(0))
    masked = tokens >= 0
    assert 0.13 < masked.float().mean() < 0.17
    assert set(texts[masked].tolist()) == {103}
    assert set(tokens[~masked].tolist()) == {-100}


@pytest.mark.gpu
@pytest.mark.parametrize("name", [*TASKS])
def test_a_task_learns_a_batch_by_heart_on_a_gpu(name: str) -> None:
    """The loss falls."""
    task = find_task(name)
    torch.manual_seed(0)
    module = task.make_module().cuda()
    optimiser = task.make_optimiser(module.parameters())
    examples = max(task.smallest_batch, 2)
    drawn = task.draw_batch(examples, torch.Generator().manual_seed(1))
    batch = tuple(part.cuda() for part in drawn)
    losses = []
    for _ in range(8):
        optimiser.zero_grad()
        loss = task.loss(module, batch)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
