"""The whole run of peers.py: cases, rounds, budget, and what is written."""

import gc
import json
import os
import time

import torch

import cases
import graphs
import jax_peers
import machine
import measure
import minic_package
import report
import torch_peers
from budget import CAP_MS, ROUNDS, Budget
from candidates import TIMES, Candidate, JaxCandidate, TorchCandidate, words


class Bench:
    def __init__(self, options):
        self.options = options
        self.machine = machine.describe()
        self.machine["seed"] = options.seed if options.seed is not None else time.time_ns() % (1 << 31)
        torch.manual_seed(self.machine["seed"])
        torch.zeros(1, device="cuda")
        self.flush = measure.Flush()
        self.rows = []
        self.jax, self.jax_error = None, None
        if any(name.startswith("JAX") for case in options.cases for name in self.providers_of(case)):
            try:
                self.jax = jax_peers.JaxWorker()
                self.machine["jax"] = self.jax.about
            except Exception as error:
                self.jax_error = error
        self.machine["versions"]["minic"] = self._minic_version()

    def providers_of(self, case):
        return cases.providers_of(case.work, self.options.providers, self.options.numerics)

    @staticmethod
    def _minic_version():
        try:
            return minic_package.package().version()
        except Exception as error:
            return words(error)

    def skip_reason(self, case, provider, candidates, budget):
        if provider == cases.COMPILED[1] and budget.late(case):
            return "not run: the time budget is short"
        if provider in cases.MINIC and provider != cases.FUSED:
            fused = [candidate for candidate in candidates if candidate.row["provider"] == cases.FUSED]
            if fused and fused[0].estimate_ms * 4 > CAP_MS:
                return "not run: one call of minic fused takes too long already"
        return None

    def build(self, case, inputs, reference, budget):
        """Candidates that gave a right result; the rows of the others are done."""
        good = []
        for provider in self.providers_of(case):
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
                    torch.cuda.empty_cache()
                if candidate.build(*((self.jax,) if is_jax else (inputs, reference))):
                    candidate.capture()
                    good.append(candidate)
            except Exception as error:  # Its words belong into the row, whatever they are.
                candidate.remark(words(error))
            torch.cuda.synchronize()  # Raises if the GPU is lost, and then nothing more can be measured.
        return good

    def run_case(self, case, budget):
        """Builds, checks and measures all providers of a case."""
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

        samples = measure.interleaved({c.row["provider"]: sampler(c) for c in good}, ROUNDS)
        for candidate in good:
            candidate.finish(samples[candidate.row["provider"]])

    def run(self):
        budget = Budget(self.options.budget, self.options.cases)
        for case in self.options.cases:
            before = len(self.rows)
            try:
                self.run_case(case, budget)
            except torch.cuda.OutOfMemoryError as error:
                self.rows.append(Candidate(case, "inputs and reference", words(error)).row)
            finally:
                self.print_rows(self.rows[before:], budget)
                self.save()
            if self.jax:
                self.jax.drop()
            gc.collect()
            torch.cuda.empty_cache()
            budget.finished(case)
        self.machine["seconds"] = round(budget.spent(), 1)
        self.save()

    @staticmethod
    def print_rows(rows, budget):
        for row in rows:
            times = ", ".join(f"{name} {row[name]:.4g}" for name in TIMES if row[name] is not None) or "not timed"
            err = "-" if row["err"] is None else f"{row['err']:.1e}"
            print(
                f"[{budget.spent():5.0f} s] {row['work']} {row['shape']} {row['dtype']} | {row['provider']} | {times} | "
                f"err {err} | {row['note']}",
                flush=True,
            )

    def save(self):
        """After each case, so that a run that is cut off leaves what it has."""
        document = {"machine": self.machine, "rows": self.rows}
        if self.options.json:
            partial = self.options.json.with_name(self.options.json.name + ".partial")
            partial.write_text(json.dumps(document, indent=1))
            os.replace(partial, self.options.json)
        report.write([document], self.options.markdown, self.options.plots)


def run(options):
    bench = Bench(options)
    try:
        bench.run()
    finally:
        if bench.jax:
            bench.jax.close()
