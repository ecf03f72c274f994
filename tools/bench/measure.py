"""Times on a GPU, through torch: medians of rounds in which all candidates run in random order, so that clocks and heat are the
same for all. All times are in milliseconds."""

import itertools
import random
import statistics
import time

import torch

FLUSH_BYTES = 256 << 20  # Several times the L2 of any GPU there is.


class Flush:
    """Puts other data than a candidate's into the L2."""

    def __init__(self):
        self.memory = torch.empty(FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")

    def __call__(self):
        self.memory.zero_()


def event_times(run, repeats, before=None):
    """Each call alone between two events; `before` runs ahead of each, untimed, and while it does the host gets ahead."""
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
    for begin, end in events:
        if before:
            before()
        begin.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in events]


def event_median(run, repeats, before=None, warm_ups=1):
    for _ in range(warm_ups):
        if before:
            before()
        run()
    return statistics.median(event_times(run, repeats, before))


def host_time(run, calls):
    """What one call costs the host: nothing waits for the GPU. Few enough calls that the queue of launches never fills."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(calls):
        run()
    spent = time.perf_counter() - begin
    torch.cuda.synchronize()
    return spent / calls * 1e3


def captured(run, calls):
    """A function that replays `calls` calls as one CUDA graph. `run` takes the stream that is being captured."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        stream = torch.cuda.current_stream()
        for _ in range(calls):
            run(stream)
    graph.replay()
    torch.cuda.synchronize()
    return graph.replay


def interleaved(candidates, rounds):
    """{name: measure} -> {name: [what measure(round) gave]}: each round in random order. A measure that gives None sits out."""
    results = {name: [] for name in candidates}
    for number in range(rounds):
        for name in random.sample(list(candidates), len(candidates)):
            value = candidates[name](number)
            if value is not None:
                results[name].append(value)
    return results


def poison(output):
    """Makes a result that is not written visible."""
    output.fill_(float("nan"))


def error_of(outputs, references):
    """The largest error of any result over the largest magnitude of its reference; infinite where a result is not a number."""
    for output, reference in itertools.zip_longest(outputs, references):
        if output is None or reference is None or output.shape != reference.shape:
            raise ValueError(f"results of {shapes(outputs)}, expected {shapes(references)}")
    return max(map(_error_of, outputs, references))


def shapes(tensors):
    return ", ".join(str(tuple(tensor.shape)) for tensor in tensors)


def _error_of(output, reference):
    scale, worst = 0.0, 0.0
    # In pieces: a copy of everything in f64 would be as large as four of bf16.
    for part, wanted in zip(output.reshape(-1).split(1 << 26), reference.reshape(-1).split(1 << 26)):
        difference = (part.double() - wanted.double()).abs().max().item()
        worst = max(worst, difference if difference == difference else float("inf"))
        scale = max(scale, wanted.abs().max().item())
    return worst / scale if scale else worst
