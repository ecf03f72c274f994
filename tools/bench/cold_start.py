#!/usr/bin/env python3
"""From the start of a process to its first right result: minic beside a bare driver program, jax.jit and torch.compile.

    tools/bench/cold_start.py [--bundle DIR] [--pairs 20] [--others 3] [--budget SECONDS] [--json OUT] [--markdown OUT]

Each measurement is a new process that reads its inputs from .npy files and has one result of the GPU in host memory. The clock
(CLOCK_MONOTONIC) starts before the process is made and stops when it says that it has the result, which is then checked against f64;
of the command line it stops at its end. `cold` starts with empty caches (minic's, CUDA's, Inductor's, Triton's, JAX's), `warm` with
those that an earlier start filled. Nothing has to be fetched from a disk: all files were read before.

What is judged is a C++ program with libminic (cold_start/compile_and_run.cpp) beside a C program that does no more than cuInit,
context, PTX, copies and a launch (cold_start/bare_driver.c). Its PTX is what minic launches for the same graph, made beforehand, and
it encodes the same tensor maps. The two are started in pairs, in random order, and the median of the pairs' differences is compared
with a limit. Others are started a few times between the pairs, as time allows.

--bundle: a folder with bin/minic, lib/libminic.so and lib/libminic_runtime.so, as an unpacked bundle, an installation or a build is.
With --device=cpu what needs a GPU is left out, which leaves no pairs: to try the rest.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import cases
import cold_start_child
import graphs
import machine
import minic_package
import report

CASES = (cases.Case("softmax", (4096, 781), "f32"), cases.Case("linear", (512, 1024, 1024), "bf16"))
SOURCES = pathlib.Path(__file__).resolve().parent / "cold_start"
CACHES = ("MINIC_CACHE_DIR", "CUDA_CACHE_PATH", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR")
# Milliseconds that minic may add to the bare program.
LIMITS = {"cold": 90.0, "warm": 35.0}

BARE, EMBEDDED = "bare driver program", "minic, C++"
RUNTIME, COMMAND_LINE = "minic, .mnc artifact with libminic_runtime", "minic run (command line)"
PAIR = (BARE, EMBEDDED)
OTHERS = (RUNTIME, COMMAND_LINE, *cold_start_child.PROVIDERS)
NEEDS_GPU = (BARE, RUNTIME, "jax.jit", "torch.compile")
SLOW = ("jax.jit", "torch.compile")  # Tens of seconds, and asked last.

# CUtensorMapDataType and CUtensorMapSwizzle.
MAP_TYPES = {"f32": 7, "f16": 6, "bf16": 9}
MAP_SWIZZLES = {None: 0, "32": 1, "64": 2, "128": 3}


class Failure(Exception):
    """Its words go into the provider's row."""


def run(command, timeout, environment=None):
    """Standard output of a process; what is still running of it is ended."""
    process = subprocess.Popen(
        [str(word) for word in command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        output, errors = "", f"no result in {timeout:.0f} s"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # The process group that was started here: compilers' helpers too.
        except ProcessLookupError:
            pass
        process.wait()
    if process.returncode != 0:
        raise Failure(" ".join(errors.split())[-300:] or f"exit code {process.returncode}")
    return output


# What is made beforehand.


class Programs:
    """minic's command line, and the programs that are built for this. `failures`: why some cannot be, by provider."""

    def __init__(self, minic, folder):
        self.minic, self.folder, self.failures = minic, folder, {}
        root = pathlib.Path(minic).resolve().parents[1]
        libraries = root / "lib"
        python = [root / "python"] if (root / "python").is_dir() else []
        paths = [str(path) for path in (*python, os.environ.get("PYTHONPATH")) if path]
        self.environment = {"MINIC_LIBRARY": str(libraries / "libminic.so"), "PYTHONPATH": os.pathsep.join(paths)}
        include = f"-I{minic_package.headers(minic)}"
        path = f"-Wl,-rpath,{libraries}"
        self._build(BARE, ["gcc", "-O2", SOURCES / "bare_driver.c"], ["-ldl"])
        cpp = ["g++", "-std=c++20", "-O2", include]
        self._build(EMBEDDED, [*cpp, SOURCES / "compile_and_run.cpp"], [libraries / "libminic.so", path])
        self._build(RUNTIME, [*cpp, SOURCES / "run_artifact.cpp"], [libraries / "libminic_runtime.so", path])

    def _build(self, provider, compiler, libraries):
        source = compiler[-1]
        try:
            run([*compiler, "-o", self.folder / source.stem, *libraries], 120)
        except (Failure, OSError) as error:
            self.failures[provider] = f"{source.name} could not be built: {error}"

    def command(self, provider, case, folder, result, device):
        inputs = [word for name in case.inputs for word in ("--input", f"{name}={folder / name}.npy")]
        return {
            BARE: [self.folder / "bare_driver", folder, result],
            EMBEDDED: [self.folder / "compile_and_run", folder, result, device, "on"],
            RUNTIME: [self.folder / "run_artifact", folder, result, device, "on"],
            COMMAND_LINE: [self.minic, "run", folder / "graph.ir", f"--device={device}", *inputs, "--output", f"y={result}"],
        }.get(provider) or [
            *(sys.executable, cold_start_child.__file__, provider, json.dumps([case.work, case.sizes, case.dtype])),
            *(folder, result, device),
        ]


def inputs_of(case):
    """Arrays of random numbers as they are in memory (bf16: its bits), and as f64."""
    import numpy

    random_numbers = numpy.random.default_rng()
    arrays, values = {}, {}
    for name, sizes in case.inputs.items():
        value = random_numbers.standard_normal(sizes, numpy.float32) / numpy.float32(sizes[0] ** 0.5 if name == "w" else 1)
        arrays[name] = value
        if case.dtype == "bf16":
            arrays[name] = (value.view(numpy.uint32) >> 16).astype(numpy.uint16)  # Truncated: any bf16 numbers will do.
            value = (arrays[name].astype(numpy.uint32) << 16).view(numpy.float32)
        values[name] = value.astype(numpy.float64)
    return arrays, values


def expected_of(case, values):
    import numpy

    if case.work == "softmax":
        e = numpy.exp(values["x"] - values["x"].max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)
    return numpy.maximum(values["x"] @ values["w"] + values["b"], 0)


def prepare(case, folder, minic):
    """Writes graph, artifact, inputs, the expected result in f64, and what the bare program launches."""
    import numpy

    arrays, values = inputs_of(case)
    for name, array in arrays.items():
        numpy.save(folder / f"{name}.npy", array)
    numpy.save(folder / "expected.npy", expected_of(case, values))
    graph, artifact = folder / "graph.ir", folder / "graph.mnc"
    graph.write_text(graphs.text_of(case))
    run([minic, "compile", graph, "--cache=off", "-o", artifact], 120)
    plan = run([minic, "compile", graph, "--emit=plan"], 120)
    described = json.loads(run([minic, "inspect", artifact, "--json"], 120))
    kernel, text = launch_of(case, plan, described)
    (folder / "launch.txt").write_text(text)
    (folder / "kernel.ptx").write_text(run([minic, "inspect", artifact, "--emit=ptx", "--kernel", kernel], 120))


def launch_of(case, plan, described):
    """The kernel of a plan's one launch, and what bare_driver.c reads of it."""
    plan = plan[plan.rindex("\nplan @") :]
    result = re.search(r"return %(\w+)", plan).group(1)
    launches = re.findall(r"launch @(\S+?)\(([^)]*)\), grid = \[([\d, ]*)\]", plan)
    if len(launches) != 1:
        raise Failure(f"the plan has {len(launches)} launches, expected one")
    kernel, operands, grid = launches[0]
    code = next(one for one in described["variants"][0]["kernels"] if one["name"] == kernel)
    programs = 1
    for size in grid.split(","):
        programs *= int(size)
    names = {result: "y", **{name: name for name in case.inputs}}
    lines = [f"kernel {kernel} {programs} {code['threads']} {code['dynamic_shared_bytes']}"]
    for name, sizes in {**case.inputs, **case.results}.items():
        lines.append(f"buffer {name} {cases.BYTES[case.dtype] * _product(sizes)}")
    maps = {
        name: (names[of], sizes.split("x"), dtype, box.split(", "), swizzle)
        for name, of, sizes, dtype, box, swizzle in re.findall(
            r"%(\w+) = tensor_map %(\w+) : tensor_map<([\dx]+)x(\w+), box = \[([\d, ]+)\](?:, #swizzle(\d+))?>", plan
        )
    }
    for operand in operands.split(", "):
        operand = operand.lstrip("%")
        if operand in names:
            lines.append(f"pointer {names[operand]}")
        else:
            lines.append(_map_line(*maps[operand]))
    return kernel, "\n".join(lines) + "\n"


def _map_line(name, sizes, dtype, box, swizzle):
    sizes, box = [int(size) for size in sizes][::-1], [int(size) for size in box][::-1]
    strides = [cases.BYTES[dtype] * _product(sizes[: axis + 1]) for axis in range(len(sizes) - 1)]
    if swizzle:
        box[0] = min(box[0], int(swizzle) // cases.BYTES[dtype])  # A wider box is several slabs.
    numbers = [MAP_TYPES[dtype], MAP_SWIZZLES[swizzle or None], len(sizes), *sizes, *strides, *box]
    return f"map {name} {' '.join(map(str, numbers))}"


def _product(sizes):
    product = 1
    for size in sizes:
        product *= size
    return product


def error_of(case, folder, result):
    """The largest error over the largest magnitude. `result`: a file that ends with the elements."""
    import numpy

    expected = numpy.load(folder / "expected.npy")
    data = result.read_bytes()[-cases.BYTES[case.dtype] * expected.size :]
    if case.dtype == "bf16":
        values = (numpy.frombuffer(data, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    else:
        values = numpy.frombuffer(data, numpy.float32)
    error = float(numpy.abs(values.astype(numpy.float64).reshape(expected.shape) - expected).max() / numpy.abs(expected).max())
    return error if error == error else float("inf")


# Figures.


def quartiles(values):
    """Lower quartile, median, upper quartile."""
    return statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3


def summary(samples, failures):
    """A row for each (case, provider, cache); times in milliseconds. `samples`: {"total": ms, step: ms ...}."""
    rows = []
    for (case, provider, cache), values in samples.items():
        row = {"work": case.work, "shape": case.shape, "dtype": case.dtype, "provider": provider, "cache": cache}
        row |= {"starts": len(values), "note": failures.get((case, provider), "")}
        if values:
            row["quartiles_ms"] = quartiles([value["total"] for value in values])
            row["steps_ms"] = {name: statistics.median(value[name] for value in values) for name in values[0] if name != "total"}
        rows.append(row)
    return rows


def judged(pairs):
    """What minic adds to the bare program, for each (case, cache). `pairs`: lists of (bare, minic) in milliseconds."""
    rows = []
    for (case, cache), values in pairs.items():
        row = {"work": case.work, "shape": case.shape, "dtype": case.dtype, "cache": cache}
        row |= {"pairs": len(values), "limit_ms": LIMITS[cache], "values_ms": values}
        if values:
            row["quartiles_ms"] = quartiles([minic - bare for bare, minic in values])
            row["ok"] = row["quartiles_ms"][1] <= LIMITS[cache]
        rows.append(row)
    return rows


def _title(row):
    return f"{row['work']} {row['shape']} {row['dtype']}"


def _spread(row):
    if not row or "quartiles_ms" not in row:
        return "-"
    low, middle, high = row["quartiles_ms"]
    return f"{middle:.0f} ({low:.0f} to {high:.0f})"


def _steps(row):
    return ", ".join(f"{name} {time:.0f}" for name, time in row.get("steps_ms", {}).items())


def markdown(document):
    lines = ["# From process start to the first right result", "", *report.machine_lines(document["machine"])]
    lines += ["Milliseconds: median (lower to upper quartile).", "", "What minic adds to the bare driver program, of pairs:", ""]
    body = [
        [_title(row), row["cache"], str(row["pairs"]), _spread(row), f"{row['limit_ms']:.0f}"]
        + [{True: "held", False: "missed"}.get(row.get("ok"), "-")]
        for row in document["pairs"]
    ]
    lines += [*report.table(["", "caches", "pairs", "added", "limit", ""], body), ""]
    by_case = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in document["rows"]:
        by_case[_title(row)][row["provider"]][row["cache"]] = row
    for title, providers in by_case.items():
        body = [
            [name, *(_spread(rows.get(cache)) for cache in LIMITS), str(rows["cold"]["starts"]), _steps(rows["cold"]), _steps(rows["warm"])]
            for name, rows in providers.items()
        ]
        lines += [f"## {title}", "", *report.table(["", "cold", "warm", "starts", "steps, cold", "steps, warm"], body), ""]
        notes = [f"- {name}: {rows['cold']['note']}" for name, rows in providers.items() if rows["cold"]["note"]]
        lines += [*notes, ""] if notes else []
    return "\n".join(lines).rstrip("\n") + "\n"


# Measuring.


class Starts:
    """All starts of all providers."""

    def __init__(self, options, root, chosen=CASES):
        self.options, self.root, self.begin = options, root, time.monotonic()
        self.machine = machine.describe()
        self.programs = Programs(options.minic, root)
        self.failures, self.folders, self.samples, self.pairs = {}, {}, {}, {}
        self.faults = collections.Counter()
        self.longest = collections.defaultdict(float)  # Seconds that a cold and a warm start of a provider took.
        for number, case in enumerate(chosen):
            self.folders[case] = root / f"case{number}"
            self.folders[case].mkdir()
            prepare(case, self.folders[case], options.minic)
            for provider in (*PAIR, *OTHERS):
                if provider in self.programs.failures:
                    self.failures[case, provider] = self.programs.failures[provider]
                elif options.device == "cpu" and provider in NEEDS_GPU:
                    self.failures[case, provider] = "needs a GPU"
                elif provider not in options.providers:
                    self.failures[case, provider] = "not asked for"
            for cache in LIMITS:
                self.pairs[case, cache] = []
                self.samples |= {(case, provider, cache): [] for provider in (*PAIR, *OTHERS)}

    def left(self):
        return self.options.budget - (time.monotonic() - self.begin)

    def start(self, case, provider, caches):
        """One process: {"total": ms, step: ms ...}."""
        folder, result = self.folders[case], self.root / "result"
        environment = {
            **os.environ,
            **self.programs.environment,
            **{name: str(caches / name.lower()) for name in CACHES},
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
        result.unlink(missing_ok=True)
        command = self.programs.command(provider, case, folder, result, self.options.device)
        timeout = max(10.0, min(120.0 if provider in SLOW else 30.0, self.left()))
        begin = time.monotonic()
        output = run(command, timeout, environment)
        end = time.monotonic()
        error = error_of(case, folder, result) if self.options.check else 0.0
        if error >= cases.BOUNDS[case.dtype]:
            raise Failure(f"wrong: error {error:.1e}")
        if provider == COMMAND_LINE:
            return {"total": 1e3 * (end - begin)}
        steps, last = {}, begin
        for name, at in json.loads(output.splitlines()[-1]).items():
            steps[name], last = 1e3 * (at - last), at
        return {**steps, "total": 1e3 * (last - begin)}

    def sample(self, case, provider, cache):
        """Milliseconds, or None after a failure. The first cold start's caches are those of the warm ones."""
        if (case, provider) in self.failures or (cache == "warm" and not self.samples[case, provider, "cold"]):
            return None
        kept = self.root / f"{self.folders[case].name} {provider}"
        caches = kept if cache == "warm" or not kept.exists() else pathlib.Path(tempfile.mkdtemp(dir=self.root))
        caches.mkdir(exist_ok=True)
        begin = time.monotonic()
        try:
            sample = self.start(case, provider, caches)
        except (Failure, OSError, ValueError) as error:
            print(f"{case.work} {provider}, {cache}: {error}", flush=True)
            self.faults[case, provider] += 1
            if self.faults[case, provider] == 2:  # Once may be an accident.
                self.failures[case, provider] = f"{error}"
            return None
        finally:
            self.longest[provider] = max(self.longest[provider], time.monotonic() - begin)
            if caches != kept:
                shutil.rmtree(caches, ignore_errors=True)
        self.samples[case, provider, cache].append(sample)
        return sample["total"]

    def pair(self, case, cache):
        times = {provider: self.sample(case, provider, cache) for provider in random.sample(PAIR, 2)}
        if all(times.values()):
            self.pairs[case, cache].append(tuple(times[provider] for provider in PAIR))

    def run(self):
        options = self.options
        for number in range(options.pairs):
            begin = time.monotonic()
            for case in self.folders:
                for cache in LIMITS:
                    self.pair(case, cache)
            round_s = time.monotonic() - begin
            # Others between the pairs, where the time for the pairs to come stays.
            if number * options.others // options.pairs != (number + 1) * options.others // options.pairs:
                reserve = round_s * (options.pairs - number - 1) + 10
                for provider in sorted(OTHERS, key=lambda name: name in SLOW):
                    for case in self.folders:
                        expected = 2 * (self.longest[provider] or (20.0 if provider in SLOW else 1.0))
                        if self.left() > reserve + expected:
                            for cache in LIMITS:
                                self.sample(case, provider, cache)
            print(f"round {number + 1} of {options.pairs}: {options.budget - self.left():.0f} s", flush=True)
            self.save()
            if self.left() < round_s:
                print(f"no more rounds: the budget of {options.budget:.0f} s is spent", flush=True)
                break

    def save(self):
        document = {
            "machine": self.machine,
            "pairs": judged(self.pairs),
            "rows": summary(self.samples, self.failures),
        }
        if self.options.json:
            self.options.json.write_text(json.dumps(document, indent=1))
        if self.options.markdown:
            self.options.markdown.write_text(markdown(document))
        return document


def arguments(words=None):
    names = lambda text: text.split(";")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, metavar="DIR", help="default: where the program minic is found")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--others", type=int, default=3, help="starts of each of the others, with either cache")
    parser.add_argument("--budget", type=float, default=270.0, metavar="SECONDS", help="drops starts of the others, then pairs")
    parser.add_argument("--providers", type=names, default=[*PAIR, *OTHERS], help="only these, with ; between them")
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--dry-run", action="store_true", help="builds and makes ready, shows what would be started, starts nothing")
    parser.add_argument("--no-check", dest="check", action="store_false", help=argparse.SUPPRESS)
    options = parser.parse_args(words)
    options.minic = str(options.bundle.resolve() / "bin" / "minic") if options.bundle else minic_package.command_line()
    if not options.minic or not os.access(options.minic, os.X_OK):
        parser.error("there is no program minic; --bundle names the folder that has it in bin/")
    return options


def main():
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="minic-cold-start-", ignore_cleanup_errors=True) as root:
        starts = Starts(options, pathlib.Path(root))
        if options.dry_run:
            for case, folder in starts.folders.items():
                for provider in (*PAIR, *OTHERS):
                    command = starts.programs.command(provider, case, folder, folder / "result", options.device)
                    print(f"{case.work} {provider}: {starts.failures.get((case, provider)) or ' '.join(map(str, command))}")
                print((folder / "launch.txt").read_text(), end="")
            return None
        starts.run()
        print(markdown(starts.save()), end="")
    return None


if __name__ == "__main__":
    sys.exit(main())
