#!/usr/bin/env python3
"""From the start of a process to its first right result: minic beside torch, torch.compile, jax.jit and a bare driver program.

    tools/bench/coldstart.py [--rounds N] [--budget SECONDS] [--json OUT] [--markdown OUT] [--minic PATH] [--works softmax,linear]

Each measurement is a new process that reads its inputs from .npy files, computes one result on the GPU and has it in host memory.
`cold` starts with empty caches (Inductor's, Triton's, CUDA's, JAX's), `warm` is the next start with the same folders. Files are in
the page cache after the first round. Providers take turns in rounds of random order; figures are medians, in seconds. Results are
checked against f64 after the clock has stopped. The bare program loads PTX that minic made beforehand, through ctypes.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import cases
import coldstart_child
import graphs
import machine
import minic_package
import report

CASES = (
    cases.Case("softmax", (4096, 1024), "f32"),
    cases.Case("linear", (2048, 2048, 2048), "bf16"),
    cases.Case("linear", (2048, 2048, 2048), "f32"),
)
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "CUDA_CACHE_PATH", "JAX_COMPILATION_CACHE_DIR")
TIMES = ("wall_s", "import_s", "compile_s", "first_s")
TIMEOUT = 240
COMMAND_LINE = "minic run (command line)"
PROVIDERS = (*list(coldstart_child.PROVIDERS)[:2], COMMAND_LINE, *list(coldstart_child.PROVIDERS)[2:])


def prepare(case, folder):
    """Writes inputs, the expected result in f64, and what minic makes beforehand. A reason for each provider that cannot be."""
    import numpy

    random_numbers = numpy.random.default_rng()
    values = {}
    for name, sizes in case.inputs.items():
        value = random_numbers.standard_normal(sizes, numpy.float32) / numpy.float32(sizes[0] ** 0.5 if name == "w" else 1)
        if case.dtype == "bf16":
            bits = (value.view(numpy.uint32) >> 16).astype(numpy.uint16)  # Truncated: any bf16 numbers will do.
            numpy.save(folder / f"{name}.npy", bits)
            value = (bits.astype(numpy.uint32) << 16).view(numpy.float32)
        else:
            numpy.save(folder / f"{name}.npy", value)
        values[name] = value.astype(numpy.float64)
    if case.work == "softmax":
        e = numpy.exp(values["x"] - values["x"].max(1, keepdims=True))
        expected = e / e.sum(1, keepdims=True)
    else:
        expected = numpy.maximum(values["x"] @ values["w"] + values["b"], 0)
    numpy.save(folder / "expected.npy", expected)
    text = graphs.text_of(case)
    (folder / "graph.ir").write_text(text)
    failures = {}

    def attempt(provider, action):
        try:
            action()
        except Exception as error:  # Its words go into the provider's row.
            failures[provider] = f"{type(error).__name__}: {error}"

    def artifact():
        minic_package.package().compile(text).save(str(folder / "graph.mnc"))

    def bare():
        minic = minic_package.package()
        ptx = minic.emit(text, "ptx")
        (folder / "graph.ptx").write_text(ptx)
        (folder / "launch.json").write_text(json.dumps(launch_of(minic.emit(text, "plan"), ptx)))

    attempt("minic, .mnc artifact", artifact)
    attempt("bare driver program", bare)
    return failures


def launch_of(plan, ptx):
    """The one launch of a plan: kernel, buffers (inputs by name, the result as y), programs; and threads from the PTX."""
    result = re.search(r"return %(\w+)", plan)
    launches = re.findall(r"launch @(\S+?)\(([^)]*)\), grid = \[([\d, ]*)\]", plan)
    threads = re.search(r"\.reqntid\s+(\d+)", ptx)
    if len(launches) != 1 or not threads or not result:
        raise ValueError(f"expected one launch of a kernel of known threads, found {len(launches)} launches")
    kernel, buffers, grid = launches[0]
    programs = 1
    for size in grid.split(","):
        programs *= int(size)
    names = ["y" if name == result.group(1) else name for name in re.findall(r"%(\w+)", buffers)]
    return {"kernel": kernel, "buffers": names, "grid": programs, "threads": int(threads.group(1))}


def _run(command, environment):
    """Standard output of a process, and what is still running of it is ended."""
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        output, errors = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        output, errors = "", f"no result in {TIMEOUT} s"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # The process group that was started here: compilers' helpers too.
        except ProcessLookupError:
            pass
        process.wait()
    if process.returncode != 0:
        raise RuntimeError(" ".join(errors.split())[-300:] or f"exit code {process.returncode}")
    return output


def measure(provider, case, folder, caches, minic):
    environment = {
        **os.environ,
        **{name: str(caches / name.lower()) for name in CACHES},
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    if provider != COMMAND_LINE:
        number = CASES.index(case)
        command = [sys.executable, __file__, "--child", provider, "--case", str(number), "--folder", str(folder), "--start"]
        answer = json.loads(_run([*command, repr(time.monotonic())], environment).splitlines()[-1])
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer
    if not minic:
        raise RuntimeError("there is no program minic; --minic names it")
    import numpy

    result = caches / "y.npy"
    inputs = [argument for name in case.inputs for argument in ("--input", f"{name}={folder / name}.npy")]
    start = time.monotonic()
    _run([minic, "run", str(folder / "graph.ir"), "--device=cuda", *inputs, "--output", f"y={result}"], environment)
    return {"wall_s": time.monotonic() - start, "err": coldstart_child.error_of(case, folder, numpy.load(result))}


def summary(samples, failures):
    """A row for each (case, provider, cache)."""
    rows = []
    for (case, provider, cache), values in samples.items():
        row = {
            "work": case.work,
            "shape": case.shape,
            "dtype": case.dtype,
            "provider": provider,
            "cache": cache,
            "samples": len(values),
            "note": failures.get((case, provider), ""),
        }
        for name in TIMES:
            times = [value[name] for value in values if name in value]
            row[name] = statistics.median(times) if times else None
        row["err"] = max((value["err"] for value in values), default=None)
        row["ok"] = row["err"] is not None and row["err"] < cases.BOUNDS[case.dtype]
        rows.append(row)
    return rows


def _cell(row):
    if not row or row["wall_s"] is None:
        return "-"
    parts = [f"{name[:-2]} {row[name]:.2f}" for name in TIMES[1:] if row[name] is not None]
    wrong = "" if row["ok"] else f", wrong: error {row['err']:.1e}"
    return f"{row['wall_s']:.2f}" + (f" ({', '.join(parts)})" if parts else "") + wrong


def markdown(document):
    lines = [
        "# From process start to the first right result",
        "",
        *report.machine_lines(document["machine"]),
        "Seconds, medians; in parentheses what they are made of. Cold: empty caches; warm: the next start with the same folders.",
        "",
    ]
    by_case = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in document["rows"]:
        by_case[f"{row['work']} {row['shape']} {row['dtype']}"][row["provider"]][row["cache"]] = row
    for case, providers in by_case.items():
        body = [
            [name, _cell(rows.get("cold")), _cell(rows.get("warm")), str(next(iter(rows.values()))["samples"])]
            for name, rows in providers.items()
        ]
        lines += [f"## {case}", "", *report.table(["", "cold", "warm", "starts"], body), ""]
        notes = {name: rows["cold"]["note"] for name, rows in providers.items() if rows.get("cold", {}).get("note")}
        lines += [f"- {name}: {note}" for name, note in notes.items()] + ([""] if notes else [])
    return "\n".join(lines).rstrip("\n") + "\n"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, default=480.0, metavar="SECONDS", help="starts no round that would end later")
    parser.add_argument("--works", type=lambda text: text.split(","), default=["softmax", "linear"])
    parser.add_argument("--providers", type=lambda text: text.split(";"), default=list(PROVIDERS), help="names with ; between them")
    parser.add_argument("--minic", default=minic_package.command_line(), help="the command line's program")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true", help="prints works and providers; needs no GPU")
    for name, kind in (("--child", str), ("--case", int), ("--folder", pathlib.Path), ("--start", float)):
        parser.add_argument(name, type=kind, help=argparse.SUPPRESS)
    return parser.parse_args()


class Starts:
    """All starts of all providers, in rounds."""

    def __init__(self, options, root):
        self.options, self.root = options, root
        self.failures = {}
        self.folders = {}
        self.samples = {}
        self.machine = machine.describe()
        for number, case in enumerate(CASES):
            if case.work in options.works:
                self.folders[case] = root / f"case{number}"
                self.folders[case].mkdir()
                reasons = prepare(case, self.folders[case])
                self.failures.update({(case, provider): reason for provider, reason in reasons.items()})
        for case in self.folders:
            for provider in options.providers:
                for cache in ("cold", "warm"):
                    self.samples[case, provider, cache] = []

    def round(self, number):
        pairs = [
            (case, provider)
            for case in self.folders
            for provider in self.options.providers
            if (case, provider) not in self.failures
        ]
        for case, provider in random.sample(pairs, len(pairs)):
            with tempfile.TemporaryDirectory(dir=self.root) as caches:
                for cache in ("cold", "warm"):
                    try:
                        sample = measure(provider, case, self.folders[case], pathlib.Path(caches), self.options.minic)
                    except Exception as error:  # Its words go into the row, and it is not started again.
                        self.failures[case, provider] = " ".join(f"{error}".split())[:300]
                        print(f"{case.work} {case.dtype} {provider}: {self.failures[case, provider]}", flush=True)
                        break
                    self.samples[case, provider, cache].append(sample)
                    print(f"round {number}: {case.work} {case.dtype} {provider}, {cache}: {sample}", flush=True)
            self.save()

    def run(self):
        begin = time.monotonic()
        for number in range(self.options.rounds):
            spent = time.monotonic() - begin
            if number and spent + spent / number > self.options.budget:
                print(f"no more rounds: {spent:.0f} s of {self.options.budget:.0f} s are spent", flush=True)
                break
            self.round(number)

    def save(self):
        document = {"machine": self.machine, "rows": summary(self.samples, self.failures)}
        if self.options.json:
            self.options.json.write_text(json.dumps(document, indent=1))
        if self.options.markdown:
            self.options.markdown.write_text(markdown(document))
        return document


def main():
    options = arguments()
    if options.child:
        return coldstart_child.run(options.child, CASES[options.case], options.folder, options.start)
    if options.dry_run:
        for case in CASES:
            if case.work in options.works:
                print(f"{case.work} {case.shape} {case.dtype}: {', '.join(options.providers)}")
        return None
    with tempfile.TemporaryDirectory(prefix="minic-coldstart-") as root:
        starts = Starts(options, pathlib.Path(root))
        starts.run()
        print(markdown(starts.save()), end="")
    return None


if __name__ == "__main__":
    sys.exit(main())
