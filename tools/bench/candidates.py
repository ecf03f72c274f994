"""A provider at one case: its row, how it is built and checked, and how it is measured in a round."""

import statistics
import time

import torch

import cases
import measure
import minic_peers
import torch_peers
from budget import ROUNDS, rounds_for

TIMES = ("ms", "ms_warm", "graph_ms", "call_ms")
GRAPH_CALLS = 20
GRAPH_MAX_MS = 5.0  # Longer calls are not put in a graph: the gaps that it closes are nothing to them.


def words(error):
    """An error as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


class Candidate:
    """A provider at one case: its row, and how to run and measure it."""

    def __init__(self, case, provider, note):
        self.case = case
        self.row = {
            "work": case.work,
            "shape": case.shape,
            "dtype": case.dtype,
            "provider": provider,
            "small": case.small,
            **dict.fromkeys(TIMES),
            "err": None,
            "ok": False,
            "gbps": None,
            "tflops": None,
            "first_call_s": None,
            "note": note,
        }
        self.rounds = 0

    def remark(self, text):
        self.row["note"] = "; ".join(filter(None, (self.row["note"], text)))

    def checked(self, err):
        """Notes the error; false if it is too large to be timed."""
        bound = cases.BOUNDS[self.case.dtype]
        self.row["err"], self.row["ok"] = (err if err != float("inf") else None), err < bound
        if not self.row["ok"]:
            self.remark(f"wrong: error {err:.2e}, allowed {bound:.0e}; not timed")
        return self.row["ok"]

    def plan(self, slice_ms):
        """How many rounds it takes part in, given what one call takes; none if one call is all that its time allows."""
        self.slice_ms = slice_ms
        self.rounds = rounds_for(self.estimate_ms, slice_ms)
        if self.rounds == 0:
            self.row["ms"] = self.estimate_ms
            self.remark("one call only, for its length")
        elif self.rounds < ROUNDS:
            self.remark(f"{self.rounds} of {ROUNDS} rounds, for its length")

    def count(self, share, extra_ms=0.0):
        return max(1, min(100, int(self.slice_ms * share / (self.estimate_ms + extra_ms))))

    def finish(self, samples):
        for name in TIMES:
            values = [sample[name] for sample in samples if sample.get(name) is not None]
            if values:
                self.row[name] = statistics.median(values)
        if self.row["ms"]:
            self.row["gbps"] = self.case.required_bytes / self.row["ms"] / 1e6
            if self.case.flops:
                self.row["tflops"] = self.case.flops / self.row["ms"] / 1e9


class TorchCandidate(Candidate):
    """Anything that runs in this process on torch's tensors: torch, Triton, minic."""

    def build(self, inputs, reference):
        provider, begin = self.row["provider"], time.perf_counter()
        if provider in cases.MINIC:
            self.run = minic_peers.Run(self.case, provider, inputs)
            self.remark(f"{self.run.launches} launch{'es' if self.run.launches != 1 else ''}")
        elif provider.startswith("Triton"):
            import triton_peers  # Where there is no Triton, the row says so.

            self.run = triton_peers.build(self.case, provider, inputs)
        else:
            self.run = torch_peers.build(self.case, provider, inputs)
        outputs = torch_peers.results_of(self.run())
        torch.cuda.synchronize()
        self.row["first_call_s"] = time.perf_counter() - begin
        for output in outputs:
            measure.poison(output)  # The next call writes there, or into memory that the allocator hands out again.
        del output, outputs
        event_begin, event_end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        event_begin.record()
        outputs = torch_peers.results_of(self.run())
        event_end.record()
        torch.cuda.synchronize()
        self.estimate_ms = max(event_begin.elapsed_time(event_end), 1e-3)
        if provider == cases.COPY:
            reference = (torch_peers.copied(self.case, inputs),)
        elif provider == cases.MATMUL_ALONE:
            reference = (torch_peers.matmul_alone(inputs),)
        return self.checked(measure.error_of(outputs, reference))

    def capture(self):
        self.replay, self.graph_calls = None, max(1, min(GRAPH_CALLS, int(20 / self.estimate_ms)))
        if self.estimate_ms > GRAPH_MAX_MS:
            return
        try:
            self.replay = measure.captured(self.run, self.graph_calls)
        except Exception as error:  # A provider that cannot be captured has its other times.
            self.remark(f"no capture by torch: {words(error)}")
            if self.row["provider"] in cases.MINIC:
                try:
                    self.replay, self.graph_calls = self.run.captured_alone(), 1
                    self.remark("graph_ms is minic's own capture of one call")
                except Exception as own:
                    self.remark(f"no capture by minic: {words(own)}")

    def sample(self, flush):
        warm_ups = 1 if self.estimate_ms < 50 else 0
        sample = {
            "ms": measure.event_median(self.run, self.count(0.5, 0.1), flush, warm_ups),
            "ms_warm": measure.event_median(self.run, self.count(0.2), None, warm_ups),
        }
        if self.replay:
            repeats = max(1, self.count(0.2) // self.graph_calls)
            sample["graph_ms"] = measure.event_median(self.replay, repeats) / self.graph_calls
        sample["call_ms"] = measure.host_time(self.run, min(30, self.count(0.1)))
        return sample


class JaxCandidate(Candidate):
    def build(self, worker):
        answer = worker.build(self.case, self.row["provider"])
        self.worker, self.estimate_ms = worker, answer["estimate_ms"]
        self.row["first_call_s"] = answer["first_call_s"]
        return self.checked(answer["err"])

    def capture(self):
        """Nothing: its kernels are timed at the end, since a profiler must not run beside the rounds."""

    def sample(self, flush):
        return self.worker.ask("measure", provider=self.row["provider"], seconds=self.slice_ms / 1e3)

    def finish(self, samples):
        super().finish(samples)
        try:
            self.row.update(self.worker.ask("kernels", provider=self.row["provider"]))
        except Exception as error:
            self.remark(f"no kernel times: {words(error)}")
