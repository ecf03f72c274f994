"""Tensors anywhere in memory: in another order of axes, with gaps, backwards, repeated, from any element on."""

import numpy as np

from failure import Failure


def lay_out(rng, shape, dtype, fill):
    """A view of this shape into a larger array of bytes `fill`, and that array."""
    order = list(rng.permutation(len(shape))) if rng.random() < 0.5 else list(range(len(shape)))
    steps = [int(rng.choice([1, 1, 1, 2, 3, -1, -2])) for _ in shape]
    room = [abs(step) * size + int(rng.choice([0, 0, 1, 5])) for step, size in zip(steps, shape)]
    if int(np.prod(room, dtype=object)) > 1 << 22:  # Beside an axis of size 0 the others may be huge.
        order, steps, room = list(range(len(shape))), [1] * len(shape), list(shape)
    offset = int(rng.integers(0, 5))
    whole = np.full((offset + int(np.prod([room[axis] for axis in order]))) * dtype.itemsize, fill, "uint8").view(dtype)
    box = whole[offset:].reshape([room[axis] for axis in order]).transpose(np.argsort(order))
    cuts = []
    for step, size, space in zip(steps, shape, room):
        first = int(rng.integers(0, space - abs(step) * max(size - 1, 0))) if space else 0
        if step < 0:
            first += abs(step) * max(size - 1, 0)
        end = first + step * size
        cuts.append(slice(first, end if end >= 0 else None, step) if size else slice(0, 0))
    view = box[(..., *cuts)]  # The dots keep a scalar a view.
    assert view.shape == tuple(shape)
    return view, whole


def run(executable, inputs, results, rng, way):
    """Runs with all tensors laid out at random; `results` get the values. What lies between the elements must stay as it is."""
    given, into = [], []
    for tensor in inputs:
        view, _ = lay_out(rng, tensor.shape, tensor.dtype, 0xFF)
        view[...] = tensor
        for axis in range(tensor.ndim):  # One element that stands for all.
            if tensor.shape[axis] > 1 and rng.random() < 0.5 and tensor.tobytes() == repeated(tensor, axis).tobytes():
                view = np.broadcast_to(view[(slice(None),) * axis + (slice(0, 1),)], view.shape)
        given.append(view)
    for tensor in results:
        view, whole = lay_out(rng, tensor.shape, tensor.dtype, 0xA5)
        into.append((view, whole))
    executable.run(given, [view for view, _ in into])
    for i, (view, whole) in enumerate(into):
        results[i][...] = view
        view = view.view("uint8") if view.dtype == bool else view  # A bool would become 1.
        view[...] = np.frombuffer(b"\xa5" * view.dtype.itemsize, view.dtype)[0]
        if np.any(whole.view("uint8") != 0xA5):
            raise Failure(f"{way}: gaps", f"result {i}: memory between its elements is written")


def repeated(tensor, axis):
    first = tensor[(slice(None),) * axis + (slice(0, 1),)]
    return np.broadcast_to(first, tensor.shape)
