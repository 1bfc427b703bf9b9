r"""Process of synchronous training with parameter servers: a server, or a worker (PyTorch).

`parameter_servers/training.py` starts it with a fresh interpreter and sends it its role and its
orders as lines of JSON; it answers in lines of JSON. The parameters are one vector, of which every
server holds a part. In a step on *M* examples each worker computes the gradient of the loss of its
part of them, divided by *M*, and pushes to every server that server's part of it; the server sums
the gradients of the *w* workers, which gives the mean over the batch, and makes a step with
momentum (PyTorch's convention)

.. math::

    v \leftarrow \mu v + \sum_{i=1}^{w} g_i, \qquad \theta \leftarrow \theta - \eta v;  (1)

then every worker pulls all parts. Both ends know the length of every message, so that only the
numbers pass through the sockets (TCP, on this machine). Workers push, and servers receive, in the
order of their numbers, which excludes deadlocks.

A process ends by itself when another one ends, including the one that started it.
"""

from __future__ import annotations

import hmac
import itertools
import os
import socket
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.experiments.studies.parameter_servers.networks import (
    batch_of,
    draw_examples,
    flat_network,
    summed_loss,
)
from goodalloc.experiments.support.process_messages import LEFT_ALONE, hear, say

if TYPE_CHECKING:
    from collections.abc import Callable

HOST = "127.0.0.1"

#: Bytes of a number.
BYTES = 4


class Role(NamedTuple):
    """First message to a process.

    Attributes
    ----------
    kind, number
        "server" or "worker", and its number among these.
    servers, workers
        Numbers of servers and workers.
    network, seed, batch_size, learning_rate, momentum
        Network, configuration and length of the training.
    token
        Secret of workers in hexadecimal digits, since any process can connect to a server.
    patience
        Seconds to wait for another process.
    step
        Steps that were made before.
    checkpoint
        File of the state to begin with; the initial weights if empty.
    """

    kind: str
    number: int
    servers: int
    workers: int
    network: str
    seed: int
    batch_size: int
    learning_rate: float
    momentum: float
    token: str
    patience: float
    step: int
    checkpoint: str


def part_of(total: int, parts: int, index: int) -> slice:
    """Return one of consecutive parts of a range, whose lengths differ by at most 1."""
    return slice(total * index // parts, total * (index + 1) // parts)


def main() -> int:
    """Run the process of the role read from standard input, and return the exit code."""
    try:
        say(event="started")
        role = Role(**hear())
        (_serve if role.kind == "server" else _work)(role)
    except (ConnectionError, TimeoutError):
        return LEFT_ALONE
    return 0


def _obey(make_step: Callable[[], list[float]], save: Callable[[str], None]) -> None:
    """Make steps and report their seconds, and save to files, until the order to stop."""
    while (order := hear())["order"] != "stop":
        if order["order"] == "save":
            save(order["file"])
            say(event="saved")
            continue
        seconds, begin = [], time.process_time()
        for _ in range(order["steps"]):
            seconds.append(make_step())
        say(event="trained", seconds=seconds, processor=time.process_time() - begin)


def _serve(role: Role) -> None:
    """Hold a part of the parameters."""
    import torch

    torch.set_num_threads(1)
    with socket.create_server((HOST, 0)) as door:
        say(event="imported", port=door.getsockname()[1])
        peers = _let_in(door, role)
    say(event="connected")
    whole = flat_network(role.network, role.seed).parameters
    part = part_of(len(whole), role.servers, role.number)
    parameters = whole[part].clone()
    velocity = torch.zeros_like(parameters)
    state = {part.start: parameters, len(whole) + part.start: velocity}
    if role.checkpoint:
        _read(role.checkpoint, state)
    pushed = torch.empty(role.workers, len(parameters))
    for peer in peers:
        peer.sendall(_bytes_of(parameters))

    def make_step() -> list[float]:
        """Make a step as a server, and return the seconds of the update."""
        for peer, row in zip(peers, pushed, strict=True):
            _receive(peer, _bytes_of(row))
        begin = time.perf_counter()
        velocity.mul_(role.momentum).add_(pushed.sum(dim=0))
        parameters.add_(velocity, alpha=-role.learning_rate)
        end = time.perf_counter()
        for peer in peers:
            peer.sendall(_bytes_of(parameters))
        return [end - begin]

    say(event="loaded", processor=time.process_time())
    _obey(make_step, lambda file: _write(file, state))


def _work(role: Role) -> None:
    """Compute gradients as a worker."""
    import torch

    torch.set_num_threads(1)
    say(event="imported")
    peers = [_connect(port, role) for port in hear()["ports"]]
    say(event="connected")
    module, parameters, gradients = flat_network(role.network, role.seed)
    examples = draw_examples(role.network, role.seed)
    mine = part_of(role.batch_size, role.workers, role.number)
    parts = [part_of(len(parameters), role.servers, index) for index in range(role.servers)]
    pushes = [(peer, _bytes_of(gradients[part])) for peer, part in zip(peers, parts, strict=True)]
    pulls = [(peer, _bytes_of(parameters[part])) for peer, part in zip(peers, parts, strict=True)]
    for peer, target in pulls:
        _receive(peer, target)
    steps = itertools.count(role.step)

    def make_step() -> list[float]:
        """Make a step as a worker; return the seconds of forward, backward, push and pull."""
        clock = [time.perf_counter()]
        gradients.zero_()
        batch = batch_of(examples, next(steps), role.batch_size, mine)
        loss = summed_loss(module, batch) / role.batch_size
        clock.append(time.perf_counter())
        loss.backward()
        clock.append(time.perf_counter())
        for peer, source in pushes:
            peer.sendall(source)
        clock.append(time.perf_counter())
        for peer, target in pulls:
            _receive(peer, target)
        clock.append(time.perf_counter())
        return [end - begin for begin, end in itertools.pairwise(clock)]

    say(event="loaded", processor=time.process_time())
    _obey(make_step, lambda _: None)


def _connect(port: int, role: Role) -> socket.socket:
    """Return a worker's connection to a server."""
    peer = socket.create_connection((HOST, port), role.patience)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.sendall(bytes.fromhex(role.token) + bytes([role.number]))
    return peer


def _let_in(door: socket.socket, role: Role) -> list[socket.socket]:
    """Return a server's connections to all workers, in their order; others are refused."""
    found: dict[int, socket.socket] = {}
    token = bytes.fromhex(role.token)
    door.settimeout(role.patience)
    while len(found) < role.workers:
        peer, _ = door.accept()
        peer.settimeout(role.patience)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        shown = bytearray(len(token) + 1)
        try:
            _receive(peer, memoryview(shown))
        except ConnectionError:
            shown.clear()
        if hmac.compare_digest(bytes(shown[:-1]), token):
            found[shown[-1]] = peer
        else:
            peer.close()
    return [found[index] for index in range(role.workers)]


def _receive(peer: socket.socket, target: memoryview) -> None:
    """Fill some memory with what comes.

    Raises
    ------
    ConnectionError
        If the other end is gone.
    TimeoutError
        If the process sends nothing.
    """
    while target:
        count = peer.recv_into(target)
        if not count:
            raise ConnectionError("the other end is gone")
        target = target[count:]


def _bytes_of(vector: Any) -> memoryview:
    """Return the memory of a contiguous vector."""
    return memoryview(vector.numpy()).cast("B")


def _read(file: str, state: dict[int, Any]) -> None:
    """Fill vectors, by their places in a file."""
    with open(file, "rb") as stream:
        for place, vector in state.items():
            stream.seek(BYTES * place)
            stream.readinto(_bytes_of(vector))


def _write(file: str, state: dict[int, Any]) -> None:
    """Write vectors to their places in a file, and to the disk."""
    with open(file, "r+b") as stream:
        for place, vector in state.items():
            stream.seek(BYTES * place)
            stream.write(_bytes_of(vector))
        stream.flush()
        os.fsync(stream.fileno())


if __name__ == "__main__":
    sys.exit(main())
