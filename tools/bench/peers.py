#!/usr/bin/env python3
"""minic beside what people use today, on one GPU: torch, torch.compile, cuBLASLt, Triton, JAX, and a plain copy as the limit.

    tools/bench/peers.py [--works softmax,linear] [--json OUT] [--markdown OUT] [--plots DIR] [--budget SECONDS] [--quick] [--dry-run]

One process (JAX has its own, asked in the same rounds). Results are checked against f64 before anything is timed, in outputs that held
NaN; what is wrong is not timed. Then, for each shape, all providers take turns in rounds of random order. Of each row:
  ms          median of single calls between events, the L2 overwritten before each
  ms_warm     the same without overwriting: for short work it is what launching costs
  graph_ms    one call within a replayed CUDA graph of up to 20
  call_ms     what a call costs the host, without waiting for the GPU
All are medians over rounds. JAX has no events and no graphs: its ms is calls with overwriting less the overwriting, its ms_warm calls
in a row, and kernels_ms the sum of its kernels' times, which leaves out the gaps that a graph has.
A provider that fails, or is not run, has its reason in `note`. gbps counts required bytes; gbps and tflops are of ms.
"""
import argparse
import gc
import json
import os
import pathlib
import statistics
import sys
import time

import cases
import graphs

TIMES = ("ms", "ms_warm", "graph_ms", "call_ms")
ROUNDS = 5
SLICE_MS = 40.0  # What one provider may take in one round, unless the budget is short.
CAP_MS = 2000.0  # What one row may take in all; a provider of which one call takes longer is called no more.
GRAPH_CALLS = 20
GRAPH_MAX_MS = 5.0  # Longer calls are not put in a graph: the gaps that it closes are nothing to them.
WEIGHTS = {"linear": 3.0, "attention": 3.0}  # Of a case's share of the budget, by how long providers take to compile.


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", type=lambda text: text.split(","), help=f"some of {','.join(cases.CASES)}")
    parser.add_argument("--providers", type=lambda text: text.split(","), help="only these, by name")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--plots", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--budget", type=float, default=480.0, metavar="SECONDS", help="drops repeats, and autotuning where late")
    parser.add_argument("--quick", action="store_true", help="the first and the last shape of each work")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--dry-run", action="store_true", help="prints works, shapes and providers; needs no GPU")
    parser.add_argument("--jax-worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--no-cupti", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        options.cases = list(cases.selected(options.works, options.quick))
    except ValueError as error:
        parser.error(str(error))
    return options


def dry_run(options):
    for work in dict.fromkeys(case.work for case in options.cases):
        print(f"{work}: {', '.join(providers_of(work, options))}")
        for case in options.cases:
            if case.work == work:
                judged = ", in a graph" if case.small else ""
                rate = f"{case.flops / 1e9:.4g} GFLOP, " if case.flops else ""
                print(f"  {case.shape} {case.dtype}: {rate}{case.required_bytes} B{judged}")


def providers_of(work, options):
    return [name for name in cases.PROVIDERS[work] if not options.providers or name in options.providers]


def words(error):
    """An error as one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


class Candidate:
    """A provider at one case: its row, and how to run and measure it."""

    def __init__(self, case, provider, note):
        self.case = case
        self.row = {"work": case.work, "shape": case.shape, "dtype": case.dtype, "provider": provider, "small": case.small,
                    **dict.fromkeys(TIMES), "err": None, "ok": False, "gbps": None, "tflops": None, "first_call_s": None,
                    "note": note}
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
        calls = int(CAP_MS * min(1.0, slice_ms / SLICE_MS) / self.estimate_ms)
        self.rounds = min(ROUNDS, calls // 4)
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
        import minic_peers
        import torch
        import torch_peers

        import measure

        provider, begin = self.row["provider"], time.perf_counter()
        if provider in cases.MINIC:
            self.run = minic_peers.Run(self.case, provider, inputs)
            self.remark(f"{self.run.launches} launch{'es' if self.run.launches != 1 else ''}")
        elif provider.startswith("Triton"):
            import triton_peers

            self.run = triton_peers.build(self.case, provider, inputs)
        else:
            self.run = torch_peers.build(self.case, provider, inputs)
        output = self.run()
        torch.cuda.synchronize()
        self.row["first_call_s"] = time.perf_counter() - begin
        measure.poison(output)  # The next call writes there, or into memory that the allocator hands out again.
        del output
        event_begin, event_end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        event_begin.record()
        output = self.run()
        event_end.record()
        torch.cuda.synchronize()
        self.estimate_ms = max(event_begin.elapsed_time(event_end), 1e-3)
        if provider == cases.COPY:
            reference = inputs[0]
        elif provider == cases.MATMUL_ALONE:
            reference = torch_peers.matmul_alone(inputs)
        return self.checked(measure.error_of(output, reference))

    def capture(self):
        import measure

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
        import measure

        warm_ups = 1 if self.estimate_ms < 50 else 0
        sample = {"ms": measure.event_median(self.run, self.count(0.5, 0.1), flush, warm_ups),
                  "ms_warm": measure.event_median(self.run, self.count(0.2), None, warm_ups)}
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


class Budget:
    """Shares the time among the cases, by weight."""

    def __init__(self, seconds, all_cases):
        self.seconds, self.begin = seconds, time.monotonic()
        self.total = sum(self.weight(case) for case in all_cases)
        self.done = 0.0

    @staticmethod
    def weight(case):
        return WEIGHTS.get(case.work, 1.0)

    def spent(self):
        return time.monotonic() - self.begin

    def late(self, case):
        """Whether the next step would better be short: more is spent than the share of the cases up to this one."""
        return self.spent() > self.seconds * (0.1 + 0.9 * (self.done + self.weight(case)) / self.total)

    def slice_ms(self, case, candidates):
        """A third of the case's share of what is left goes into measuring: the rest is compiling and checking."""
        left = max(0.0, self.seconds - self.spent()) * self.weight(case) / max(1e-9, self.total - self.done)
        return max(4.0, min(SLICE_MS, left / 3 * 1e3 / ROUNDS / max(1, candidates)))

    def finished(self, case):
        self.done += self.weight(case)


class Bench:
    def __init__(self, options):
        import torch

        import jax_peers
        import machine
        import measure

        self.torch, self.measure, self.options = torch, measure, options
        self.machine = machine.describe()
        self.machine["seed"] = options.seed if options.seed is not None else time.time_ns() % (1 << 31)
        torch.manual_seed(self.machine["seed"])
        torch.zeros(1, device="cuda")
        self.flush = measure.Flush()
        self.rows = []
        self.jax, self.jax_error = None, None
        if any(name.startswith("JAX") for case in options.cases for name in providers_of(case.work, options)):
            try:
                self.jax = jax_peers.JaxWorker()
                self.machine["jax"] = self.jax.about
            except Exception as error:
                self.jax_error = error
        self.machine["versions"]["minic"] = self._minic_version()

    @staticmethod
    def _minic_version():
        import minic_peers

        try:
            return minic_peers.package().version()
        except Exception as error:
            return words(error)

    def skip_reason(self, case, provider, candidates, budget):
        if provider == cases.COMPILED[1] and budget.late(case):
            return "not run: the time budget is short"
        if provider == cases.EAGER:
            fused = [candidate for candidate in candidates if candidate.row["provider"] == cases.FUSED]
            if fused and fused[0].estimate_ms * 4 > CAP_MS:
                return "not run: one call of minic fused takes too long already"
        return None

    def build(self, case, inputs, reference, budget):
        """Candidates that gave a right result; the rows of the others are done."""
        good = []
        for provider in providers_of(case.work, self.options):
            is_jax = provider.startswith("JAX")
            note = graphs.note_of(case) if provider in cases.MINIC else cases.note_of(case.work, provider)
            candidate = (JaxCandidate if is_jax else TorchCandidate)(case, provider, note)
            self.rows.append(candidate.row)
            reason = self.skip_reason(case, provider, good, budget)
            if reason:
                candidate.remark(reason)
                continue
            try:
                if is_jax and self.jax is None:
                    raise self.jax_error
                if is_jax:
                    self.torch.cuda.empty_cache()
                if candidate.build(*((self.jax,) if is_jax else (inputs, reference))):
                    candidate.capture()
                    good.append(candidate)
            except Exception as error:  # Its words belong into the row, whatever they are.
                candidate.remark(words(error))
                candidate.run = None
            self.torch.cuda.synchronize()  # Raises if the GPU is lost, and then nothing more can be measured.
        return good

    def run_case(self, case, budget):
        """Builds, checks and measures all providers of a case."""
        import torch_peers

        torch_peers.prepare(case)
        inputs = torch_peers.make_inputs(case)
        reference = torch_peers.reference(case, inputs)
        good = self.build(case, inputs, reference, budget)
        del reference
        slice_ms = budget.slice_ms(case, len(good))
        for candidate in good:
            candidate.plan(slice_ms)

        def sampler(candidate):
            def sample(number):
                if number >= candidate.rounds:
                    return None
                try:
                    return candidate.sample(self.flush)
                except Exception as error:
                    candidate.rounds = 0
                    candidate.remark(words(error))
                    return None

            return sample

        samples = self.measure.interleaved({c.row["provider"]: sampler(c) for c in good}, ROUNDS)
        for candidate in good:
            candidate.finish(samples[candidate.row["provider"]])

    def run(self):
        budget = Budget(self.options.budget, self.options.cases)
        for case in self.options.cases:
            before = len(self.rows)
            try:
                self.run_case(case, budget)
            except self.torch.cuda.OutOfMemoryError as error:
                self.rows.append(Candidate(case, "inputs and reference", words(error)).row)
            finally:
                self.print_rows(self.rows[before:], budget)
                self.save()
            if self.jax and self.jax.process:
                self.jax.ask("drop")
            gc.collect()
            self.torch.cuda.empty_cache()
            budget.finished(case)
        self.machine["seconds"] = round(budget.spent(), 1)
        self.save()

    @staticmethod
    def print_rows(rows, budget):
        for row in rows:
            times = ", ".join(f"{name} {row[name]:.4g}" for name in TIMES if row[name] is not None) or "not timed"
            err = "-" if row["err"] is None else f"{row['err']:.1e}"
            print(f"[{budget.spent():5.0f} s] {row['work']} {row['shape']} {row['dtype']} | {row['provider']} | {times} | err {err} | "
                  f"{row['note']}", flush=True)

    def save(self):
        """After each case, so that a run that is cut off leaves what it has."""
        document = {"machine": self.machine, "rows": self.rows}
        if self.options.json:
            partial = self.options.json.with_name(self.options.json.name + ".partial")
            partial.write_text(json.dumps(document, indent=1))
            os.replace(partial, self.options.json)
        return document


def main():
    options = arguments()
    if options.jax_worker:
        import jax_worker

        return jax_worker.serve(not options.no_cupti)
    if options.dry_run:
        return dry_run(options)
    import report

    bench = Bench(options)
    try:
        bench.run()
    finally:
        report.write([bench.save()], options.markdown, options.plots)
        if bench.jax:
            bench.jax.close()


if __name__ == "__main__":
    sys.exit(main())
