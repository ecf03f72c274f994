"""check_bench.py MINIC [FAKE_DRIVER]: what tools/bench does without a GPU. Graphs on the interpreter against Python's own arithmetic,
tables and plots of measurements that are made up, the plan of a run, and how a run shares its time. FAKE_DRIVER: a folder with a
libcuda.so.1 of host memory, for programs that are built here and start on it."""

import json
import math
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree as ET

BENCH = pathlib.Path(__file__).resolve().parents[2] / "tools" / "bench"
sys.path.insert(0, str(BENCH))

import budget  # noqa: E402
import cases  # noqa: E402
import cold_start  # noqa: E402
import graphs  # noqa: E402
import jax_peers  # noqa: E402
import ratios  # noqa: E402
import report  # noqa: E402
import svg  # noqa: E402
from cases import COPY, EAGER, EXACT, FUSED, Case  # noqa: E402

MINIC = FAKE_DRIVER = ""


def output_of(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def flat(value):
    return [number for part in value for number in flat(part)] if isinstance(value, (list, tuple)) else [value]


def nested(values, sizes):
    if len(sizes) == 1:
        return values
    step = len(values) // sizes[0]
    return [nested(values[i * step : (i + 1) * step], sizes[1:]) for i in range(sizes[0])]


def softmax_row(row):
    exps = [math.exp(value - max(row)) for value in row]
    return [e / sum(exps) for e in exps]


def norm_row(row, gamma, beta, centered):
    mean = sum(row) / len(row) if centered else 0.0
    scale = 1 / math.sqrt(sum((x - mean) ** 2 for x in row) / len(row) + 1e-5)
    return [(x - mean) * scale * g + b for x, g, b in zip(row, gamma, beta)]


def head(q, k, v, mask):
    scores = [[sum(x * y for x, y in zip(a, b)) / math.sqrt(len(a)) + m for b, m in zip(k, row)] for a, row in zip(q, mask)]
    return [[sum(p * x for p, x in zip(softmax_row(row), column)) for column in zip(*v)] for row in scores]


def expected(case, t):
    """The results in f64 by Python alone."""
    if case.work == "residual_layernorm":
        total = [[a + b for a, b in zip(*rows)] for rows in zip(t["x"], t["r"])]
        return [norm_row(row, t["gamma"], t["beta"], True) for row in total], total
    return (expected_alone(case, t),)


def products(work, t):
    by = lambda name: [[sum(a * b for a, b in zip(row, column)) for column in zip(*t[name])] for row in t["x"]]
    if work == "swiglu":
        return [[a / (1 + math.exp(-a)) * b for a, b in zip(*rows)] for rows in zip(by("w"), by("v"))]
    biased = [[value + bias for value, bias in zip(row, t["b"])] for row in by("w")]
    if work == "linear_softmax":
        return [softmax_row(row) for row in biased]
    if work == "linear_residual":
        biased = [[value + more for value, more in zip(*rows)] for rows in zip(biased, t["r"])]
    return [[max(0.0, value) for value in row] for row in biased]


def expected_alone(case, t):
    if case.work == "softmax":
        return [softmax_row(row) for row in t["x"]]
    if case.work == "softmax0":
        return list(zip(*(softmax_row(column) for column in zip(*t["x"]))))
    if case.work == "transpose":
        return list(zip(*t["x"]))
    if case.work == "sum0":
        return [sum(column) for column in zip(*t["x"])]
    if case.work == "sum_all":
        return sum(t["x"])
    if case.work == "bias_relu":
        return [[max(0.0, x + b) for x, b in zip(row, t["b"])] for row in t["x"]]
    if case.work in cases.PRODUCTS:
        return products(case.work, t)
    if case.work == "layernorm":
        return [norm_row(row, t["gamma"], t["beta"], True) for row in t["x"]]
    if case.work == "rmsnorm":
        return [norm_row(row, t["gamma"], [0.0] * len(row), False) for row in t["x"]]
    if case.work == "bias_gelu":
        return [[0.5 * (x + b) * (1 + math.erf((x + b) / math.sqrt(2))) for x, b in zip(row, t["b"])] for row in t["x"]]
    if case.work == "attention":
        s = case.sizes[2]
        mask = t.get("mask", [[0.0] * s] * s)
        return [[head(*heads, mask) for heads in zip(*batch)] for batch in zip(t["q"], t["k"], t["v"])]
    return t["x"]


SMALL = {
    "softmax": (3, 37),
    "softmax0": (19, 5),
    "linear": (5, 7, 6),
    "linear_residual": (5, 7, 6),
    "linear_softmax": (5, 7, 6),
    "swiglu": (5, 7, 6),
    "layernorm": (3, 16),
    "residual_layernorm": (3, 17),
    "rmsnorm": (3, 16),
    "bias_gelu": (4, 32),
    "bias_relu": (4, 7),
    "transpose": (3, 5),
    "sum0": (70, 3),
    "sum_all": (300,),
    "attention": (2, 2, 6, 4),
    "copy": (5,),
}


class Graphs(unittest.TestCase):
    """What minic computes from the text is the work that is compared."""

    def check(self, case, options):
        rng = random.Random(5)
        tensors = {}
        for name, sizes in case.inputs.items():
            # Multiples of 1/32 up to 4: exact in every type.
            values = [rng.randint(-128, 128) / 32 for _ in range(math.prod(sizes))]
            if name == "mask":
                values = [-math.inf if column > row else 0.0 for row in range(sizes[0]) for column in range(sizes[1])]
            tensors[name] = nested(values, sizes)
        flags = [f"--{name}={value}" for name, value in options.items()]
        inputs = [word for name, value in tensors.items() for word in ("--input", f"{name}={value}")]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "graph.ir"
            path.write_text(graphs.text_of(case))
            lines = output_of(MINIC, "run", str(path), "--device=cpu", "--full", *flags, *inputs).splitlines()
        self.assertEqual([line.split(":")[0] for line in lines], list(case.results))
        for line, sizes, result in zip(lines, case.results.values(), expected(case, tensors)):
            self.assertIn(f": {graphs.tensor(sizes, case.dtype)} = ", line)
            given, wanted = flat(json.loads(line.split("=", 1)[1])), flat(result)
            self.assertEqual(len(given), len(wanted))
            error = max(abs(a - b) for a, b in zip(given, wanted)) / max(map(abs, wanted))
            self.assertLess(error, cases.BOUNDS[case.dtype] / 5 if case.dtype == "f32" else cases.BOUNDS[case.dtype], case)

    def test_values(self):
        self.assertEqual(set(SMALL), set(cases.CASES))
        for work, sizes in SMALL.items():
            for dtype in ("f32", "bf16"):
                for provider, options in cases.MINIC.items():
                    with self.subTest(work=work, dtype=dtype, provider=provider):
                        self.check(Case(work, sizes, dtype), options)
        self.check(Case("attention", (1, 2, 6, 4), "bf16", causal=True), {})

    def test_every_case_compiles(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "graph.ir"
            for case in (case for work in cases.CASES.values() for case in work):
                path.write_text(graphs.text_of(case))
                self.assertIn("return", output_of(MINIC, "compile", str(path), "--emit=plan"), case)

    def test_tf32_is_a_precision(self):
        text = graphs.text_of(Case("linear", (8, 8, 8), "tf32"))
        self.assertIn("precision = tf32", text)
        self.assertNotIn("xtf32", text)


class Counts(unittest.TestCase):
    def test_bytes_and_operations(self):
        self.assertEqual(Case("softmax", (4096, 1024), "f32").required_bytes, 33554432)
        linear = Case("linear", (4096, 4096, 4096), "bf16")
        self.assertEqual(linear.required_bytes, 2 * (3 * 16777216 + 4096))
        self.assertEqual(linear.flops, 137438953472)
        self.assertEqual(Case("layernorm", (16384, 8192), "f32").required_bytes, 1073741824 + 65536)
        self.assertEqual(Case("rmsnorm", (16384, 8192), "bf16").required_bytes, 536870912 + 16384)
        attention = Case("attention", (4, 16, 4096, 128), "bf16")
        self.assertEqual(attention.required_bytes, 4 * 33554432 * 2)
        self.assertEqual(attention.flops, 549755813888)
        self.assertEqual(Case("attention", (4, 16, 4096, 128), "bf16", causal=True).flops, 274877906944)
        self.assertIsNone(Case("copy", (1024,), "f32").flops)
        self.assertEqual(Case("softmax0", (1024, 65536), "f32").required_bytes, 536870912)
        # x and r in, y and x + r out, gamma and beta.
        residual = Case("residual_layernorm", (65536, 1024), "bf16")
        self.assertEqual(residual.required_bytes, 2 * (4 * 67108864 + 2 * 1024))
        self.assertEqual(residual.results, {"y": (65536, 1024), "total": (65536, 1024)})
        self.assertEqual(Case("bias_relu", (65536, 1024), "f32").required_bytes, 4 * (2 * 67108864 + 1024))
        self.assertEqual(Case("transpose", (8, 16), "bf16").required_bytes, 512)
        self.assertEqual(Case("transpose", (8, 16), "bf16").results, {"y": (16, 8)})
        self.assertEqual(Case("sum0", (65536, 4096), "f32").required_bytes, 4 * (268435456 + 4096))
        self.assertEqual(Case("sum_all", (1 << 28,), "f32").required_bytes, 1073741828)
        self.assertEqual(Case("copy", (1024,), "f32").required_bytes, 8192)
        # The mask of the graph is not of the work.
        causal = Case("attention", (4, 16, 4096, 128), "bf16", causal=True)
        self.assertEqual(causal.required_bytes, attention.required_bytes)

    def test_copies_are_limits(self):
        """Where a copy is a provider, the work reads and writes as many bytes, but for a few vectors."""
        for work in cases.CASES:
            if COPY in cases.PROVIDERS[work]:
                for case in cases.CASES[work]:
                    whole = [sizes for sizes in case.inputs.values() if sizes == case.sizes]
                    moved = 2 * cases.BYTES[case.dtype] * sum(map(math.prod, whole))
                    self.assertLess(case.required_bytes / moved, 1.001, case)
                    self.assertGreaterEqual(case.required_bytes, moved, case)

    def test_shapes_that_are_judged(self):
        listed = {(case.work, case.shape, case.dtype) for work in cases.CASES.values() for case in work}
        for work in ("softmax", "layernorm", "residual_layernorm", "rmsnorm", "bias_gelu"):
            for shape in ("65536x1024", "32768x4096"):
                self.assertLessEqual({(work, shape, "f32"), (work, shape, "bf16")}, listed)
            self.assertIn((work, "16384x8192", "bf16"), listed)
        for shape in ("65536x781", "65536x1023", "16384x4095"):
            self.assertLessEqual({("softmax", shape, "f32"), ("softmax", shape, "bf16")}, listed)
        self.assertEqual(len(listed), sum(map(len, cases.CASES.values())))


class DryRun(unittest.TestCase):
    def run_peers(self, *words):
        return subprocess.run([sys.executable, str(BENCH / "peers.py"), "--dry-run", *words], capture_output=True, text=True)

    def test_all(self):
        lines = self.run_peers().stdout.splitlines()
        works = [line.split(":")[0] for line in lines if not line.startswith(" ")]
        self.assertEqual(works, list(cases.CASES))
        self.assertEqual(len(lines) - len(works), 20 + 3 + 17 + 3 + 3 + 4 + 12 + 6 + 6 + 6 + 1 + 2 + 2 + 1 + 5 + 3)
        self.assertIn("  1823x781 f32: 11390104 B, in a graph", lines)
        self.assertIn("  8192x4096x16384 bf16: 1100 GFLOP, 469794816 B", lines)
        softmax = lines[0].split(": ")[1].split(", ")
        self.assertEqual(softmax[:2], [FUSED, EAGER])
        self.assertIn("Triton persistent", softmax)
        for work in cases.SUMS:
            self.assertNotIn(COPY, next(line for line in lines if line.startswith(f"{work}:")))

    def test_choice(self):
        done = self.run_peers("--works", "copy", "--providers", "Triton", "--quick")
        self.assertEqual([line[:9] for line in done.stdout.splitlines()], ["copy: Tri", "  4194304", "  1073741"])
        shapes = ("--shapes", "65536x1024,8192x32768", "--dtypes", "bf16")
        done = self.run_peers("--works", "layernorm,softmax", *shapes, "--providers", "JAX")
        self.assertEqual(
            done.stdout.splitlines(),
            [
                "layernorm: JAX",
                "  65536x1024 bf16: 268439552 B",
                "softmax: JAX",
                "  65536x1024 bf16: 268435456 B",
                "  8192x32768 bf16: 1073741824 B",
            ],
        )
        done = self.run_peers("--works", "sum_all", "--quick")
        self.assertEqual(len(done.stdout.splitlines()), 2)  # The one case there is, once.
        done = self.run_peers("--works", "softmin")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown work softmin; there are softmax, softmax0, linear, ", done.stderr)

    def test_numerics(self):
        done = self.run_peers("--works", "softmax", "--shapes", "128x1024", "--numerics", "exact,fast")
        self.assertIn("softmax: minic fused, minic exact, minic fast, minic eager, torch eager, ", done.stdout)
        done = self.run_peers("--works", "softmax", "--numerics", "exact", "--providers", "minic fused,JAX")
        self.assertIn("softmax: minic fused, minic exact, JAX\n", done.stdout)

    def test_choices_that_are_none(self):
        for words, message in (
            (("--works", "softmax", "--shapes", "3x3"), "unknown shape 3x3; there are 4096x1024, 1823x781, "),
            (("--works", "sum0", "--dtypes", "f16,bf16"), "unknown type f16; there are f32, bf16"),
            (("--shapes", "1048576x64", "--dtypes", "bf16"), "no case has both a shape of 1048576x64 and a type of bf16"),
            (("--numerics", "default"), "unknown numerics default; there are exact, fast"),
        ):
            done = self.run_peers(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(message, done.stderr)


def row(provider, ms, graph_ms=None, case=Case("softmax", (8, 4), "f32"), **more):
    return {
        "work": case.work,
        "shape": case.shape,
        "dtype": case.dtype,
        "provider": provider,
        "small": case.small,
        "ms": ms,
        "ms_warm": ms,
        "graph_ms": graph_ms,
        "call_ms": None,
        "err": 1e-7,
        "ok": ms is not None,
        "gbps": None,
        "tflops": None,
        "first_call_s": 0.5,
        "note": "",
        **more,
    }


SMALL_CASE = Case("softmax", (2, 4), "f32", small=True)
LINEAR = Case("linear", (8, 8, 8), "bf16")
SUM = Case("sum0", (8, 8), "bf16")
DOCUMENT = {
    "machine": {
        "gpu": "Some GPU",
        "driver": "1.2",
        "date": "2026-01-02",
        "sm_clock": "1 MHz",
        "sm_clock_max": "2 MHz",
        "memory_clock": "3 MHz",
        "versions": {"torch": "9"},
        "command": "peers.py",
    },
    "rows": [
        row(FUSED, 0.004),
        row(EXACT, 0.0005),
        row(EAGER, 0.02),
        row("torch eager", 0.03),
        row("torch.softmax", 0.002),
        row("Triton persistent", None, note="RuntimeError: too wide", err=None),
        row("JAX", 0.008),
        row(COPY, 0.001),
        # Single calls say that minic is faster, the graph that it is slower: the graph counts.
        row(FUSED, 0.003, 0.0015, SMALL_CASE, call_ms=0.002),
        row("torch.softmax", 0.006, 0.001, SMALL_CASE),
        row("JAX", 0.009, None, SMALL_CASE, kernels_ms=0.0007),
        row(COPY, 0.002, 0.0012, SMALL_CASE),
        row(FUSED, 0.05, case=LINEAR, tflops=40.0),
        row("Triton", 0.1, case=LINEAR, tflops=20.0),
        row(cases.MATMUL_ALONE, 0.01, case=LINEAR, tflops=200.0),
        row("addmm + relu_", 0.02, case=LINEAR, ok=False, err=0.5),
        row(FUSED, 0.04, case=SUM, gbps=3600.0),
        row("torch eager", 0.05, case=SUM),
    ],
}


class Report(unittest.TestCase):
    def test_markdown(self):
        lines = report.markdown([DOCUMENT]).splitlines()
        header = "| shape | minic fused | minic exact | minic eager | torch eager | torch.softmax | Triton persistent | JAX | "
        compared = "minic fused / best peer | share of the limit | minic eager / minic fused | torch eager / minic eager |"
        for line in (
            "Some GPU, driver 1.2, 2026-01-02;",
            "clocks at the start: SM 1 MHz of 2 MHz, memory 3 MHz; torch 9; by",
            f"{header}copy (torch copy_) | {compared}",
            # minic in other numerics is no peer, and nothing but minic fused is judged.
            "| 8x4 f32 | 4 | 0.5 | 20 | 30 | 2 | - | 8 | 1 | 2 (torch.softmax) | 0.25 | 5 | 1.5 |",
            "| 2x4 f32, graph | 1.5 | - | - | - | 1 | - | (0.7) | 1.2 | 1.5 (torch.softmax) | 0.8 | - | - |",
            "- Triton persistent (8x4 f32): RuntimeError: too wide",
            "## Y = ReLU(XW + b), N x K x M (us (TFLOP/s))",
            # Neither the matmul alone nor a wrong result is the best peer.
            "| 8x8x8 bf16 | 50 (40) | wrong | 10 (200) | 100 (20) | 0.5 (Triton) | - | - |",
            # A sum has no copy beside it: its rate stands there.
            "| shape | minic fused | torch eager | minic fused / best peer | minic fused, GB/s | minic eager / minic fused | "
            "torch eager / minic eager |",
            "| 8x8 bf16 | 40 | 50 | 0.8 (torch eager) | 3600 | - | - |",
            "| softmax | 2x4 f32 | minic fused | 2 | 3 | 0.5 |",
            "| linear | bf16 | addmm + relu_ | 5.0e-01 | 3e-02 |",
        ):
            self.assertIn(line, lines)

    def test_runs_are_put_together(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for number, rows in enumerate((DOCUMENT["rows"][:8], DOCUMENT["rows"][8:])):
                paths.append(pathlib.Path(folder) / f"{number}.json")
                paths[-1].write_text(json.dumps({**DOCUMENT, "rows": rows}))
            text = output_of(sys.executable, str(BENCH / "report.py"), *map(str, paths))
        self.assertEqual(text.count("## Softmax over rows"), 1)
        self.assertIn("| 8x4 f32 | 4 | 0.5 |", text)
        self.assertIn("| 2x4 f32, graph | 1.5 |", text)

    def test_a_shape_is_of_one_run(self):
        """A later run without the peer leaves nothing of the earlier one to be compared with."""
        rows = ratios.rows_of([DOCUMENT, {"rows": [row(FUSED, 0.001)]}])
        of_shape = [one for one in rows if one["work"] == "softmax" and one["shape"] == "8x4"]
        self.assertEqual([(one["provider"], one["ms"]) for one in of_shape], [(FUSED, 0.001)])
        self.assertEqual(len(rows), len(DOCUMENT["rows"]) - 7)

    def test_every_work_is_shown(self):
        self.assertEqual(set(report.TITLES), set(cases.CASES))
        self.assertEqual(set(cases.PROVIDERS), set(cases.CASES))
        self.assertLessEqual({name for names in cases.PROVIDERS.values() for name in names}, set(report.COLORS))

    def test_plots(self):
        with tempfile.TemporaryDirectory() as folder:
            report.write([DOCUMENT], pathlib.Path(folder) / "out.md", pathlib.Path(folder) / "plots")
            self.assertEqual(
                {path.name for path in (pathlib.Path(folder) / "plots").iterdir()},
                {"softmax.svg", "linear.svg", "sum0.svg", "share_of_limit.svg", "share_of_peak.svg"},
            )
        text = report.plot("softmax", DOCUMENT["rows"][:12])
        self.assertIn("8x4 f32, JAX: 4.00x", text)
        self.assertIn("2x4 f32, minic fused: 1.50x", text)
        self.assertNotIn("2x4 f32, JAX", text)
        self.assertIsNone(report.plot("softmax", [row(FUSED, 0.004)]))

    def test_plot_of_shares(self):
        text = report.plot_of_shares(DOCUMENT["rows"])
        for words in (
            "softmax 8x4 f32, minic fused: 0.250<",
            "softmax 8x4 f32, best peer: 0.500<",
            "softmax 2x4 f32, graph, minic fused: 0.800<",
            "softmax 2x4 f32, graph, best peer: 1.20<",
        ):
            self.assertIn(words, text)
        self.assertNotIn("sum0", text)
        self.assertIsNone(report.plot_of_shares([row(FUSED, 0.004), row("JAX", 0.002)]))


class Svg(unittest.TestCase):
    SPACE = "{http://www.w3.org/2000/svg}"

    def bars(self, text):
        """{tooltip: width}; the legend's keys have no tooltip."""
        found = ET.fromstring(text).iter(f"{self.SPACE}rect")
        return {
            bar.find(f"{self.SPACE}title").text: float(bar.get("width"))
            for bar in found
            if bar.find(f"{self.SPACE}title") is not None
        }

    def test_linear(self):
        text = svg.grouped_bars("A & B", "time", {"g<1>": {"p": 1.0, "q": 3.0}}, {"q": "#111", "p": "#222", "r": "#333"})
        bars = self.bars(text)
        self.assertEqual(set(bars), {"g<1>, p: 1.00x", "g<1>, q: 3.00x"})
        self.assertAlmostEqual(bars["g<1>, q: 3.00x"] / bars["g<1>, p: 1.00x"], 3, places=1)
        texts = [element.text for element in ET.fromstring(text).iter(f"{self.SPACE}text")]
        for wanted in ("A & B", "time", "g<1>", "q", "p", "1.00x", "3.00x", "0x"):
            self.assertIn(wanted, texts)
        self.assertNotIn("r", texts)
        self.assertIn("currentColor", text)
        self.assertIn("prefers-color-scheme: dark", text)

    def test_logarithmic(self):
        bars = self.bars(svg.grouped_bars("t", "time", {"g": {"p": 1.0, "q": 10.0, "r": 100.0}}, dict.fromkeys("pqr", "#111")))
        p, q, r = (bars[name] for name in ("g, p: 1.00x", "g, q: 10x", "g, r: 100x"))
        self.assertAlmostEqual(r - q, q - p, delta=0.3)
        bars = self.bars(svg.grouped_bars("t", "share", {"g": {"p": 0.05, "q": 1.0}}, dict.fromkeys("pq", "#111"), "", linear=True))
        self.assertAlmostEqual(bars["g, q: 1.00"] / bars["g, p: 0.050"], 20, delta=0.1)

    def test_nothing_leaves_the_picture(self):
        for high, group in ((1.0, "g"), (5.0, "a group with a name of fifty letters, more or less"), (5000.0, "g")):
            root = ET.fromstring(svg.grouped_bars("t", "time", {group: {"p": 1.0, "q": high}}, {"p": "#111", "q": "#222"}))
            width, height = map(float, root.get("viewBox").split()[2:])
            for bar in root.iter(f"{self.SPACE}rect"):
                self.assertLess(float(bar.get("x")) + float(bar.get("width")), width - 30)
                self.assertLess(float(bar.get("y")) + float(bar.get("height")), height)
            label = next(text for text in root.iter(f"{self.SPACE}text") if text.text == group)
            self.assertGreater(float(label.get("x")), 6.5 * len(group))  # It ends there.


class Time(unittest.TestCase):
    def test_rounds(self):
        self.assertEqual(budget.rounds_for(0.01, budget.SLICE_MS), budget.ROUNDS)
        self.assertEqual(budget.rounds_for(200.0, budget.SLICE_MS), 2)
        self.assertEqual(budget.rounds_for(budget.CAP_MS, budget.SLICE_MS), 0)
        self.assertEqual(budget.rounds_for(200.0, budget.SLICE_MS / 10), 0)

    def test_late(self):
        chosen = [Case("softmax", (1, 1), "f32"), Case("linear", (1, 1, 1), "f32")]  # 1 and 3 of 4 parts.
        shared = budget.Budget(100.0, chosen)
        shared.begin -= 30
        self.assertFalse(shared.late(chosen[0]))  # By then 10 + 90 / 4 = 32.5 s may be spent.
        shared.begin -= 5
        self.assertTrue(shared.late(chosen[0]))
        shared.finished(chosen[0])
        self.assertFalse(shared.late(chosen[1]))

    def test_slices(self):
        chosen = [Case("softmax", (1, 1), "f32")]
        self.assertEqual(budget.Budget(1000.0, chosen).slice_ms(chosen[0], 10), budget.SLICE_MS)
        self.assertAlmostEqual(budget.Budget(3.0, chosen).slice_ms(chosen[0], 10), 20.0, delta=1)
        self.assertEqual(budget.Budget(0.0, chosen).slice_ms(chosen[0], 10), 4.0)


class FakeWorker(jax_peers.JaxWorker):
    """The other end is a few lines that answer, refuse, or hang."""

    SCRIPT = """
import json, sys, time
for line in sys.stdin:
    what = json.loads(line)["ask"]
    if what == "hang" or (what == "hello" and sys.argv[1] == "True"):
        time.sleep(60)
    print(json.dumps({"platform": "PLATFORM", "device": "d"} if what == "hello" else {"error": "no memory"}), flush=True)
"""
    platform = "gpu"

    def _start(self, use_cupti):
        self.starts = [*getattr(self, "starts", []), use_cupti]
        script = self.SCRIPT.replace("PLATFORM", self.platform)
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, str(use_cupti)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def ask(self, what, timeout=120, **arguments):
        return super().ask(what, 3 if what in ("hello", "hang") else timeout, **arguments)


class Jax(unittest.TestCase):
    def test_worker(self):
        worker = FakeWorker()
        self.assertEqual(worker.starts, [True, False])  # The one that hung with its profiler was started again without it.
        with self.assertRaisesRegex(RuntimeError, "no memory"):
            worker.ask("build")
        begin = time.monotonic()
        with self.assertRaisesRegex(jax_peers.JaxUnavailable, "did not answer 'hang' in 3 s"):
            worker.ask("hang")
        self.assertLess(time.monotonic() - begin, 15)
        with self.assertRaisesRegex(jax_peers.JaxUnavailable, "has ended"):
            worker.ask("build")
        worker.drop()

    def test_no_gpu(self):
        class OnCpu(FakeWorker):
            platform = "cpu"

        with self.assertRaisesRegex(jax_peers.JaxUnavailable, "sees no GPU"):
            OnCpu()


class ColdStart(unittest.TestCase):
    CASE = Case("softmax", (3, 8), "f32")

    def launch(self, case, *flags):
        with tempfile.TemporaryDirectory() as folder:
            graph, artifact = pathlib.Path(folder) / "graph.ir", pathlib.Path(folder) / "graph.mnc"
            graph.write_text(graphs.text_of(case))
            output_of(MINIC, "compile", str(graph), "--cache=off", "-o", str(artifact), *flags)
            plan = output_of(MINIC, "compile", str(graph), "--emit=plan", *flags)
            described = json.loads(output_of(MINIC, "inspect", str(artifact), "--json"))
        kernel, text = cold_start.launch_of(case, plan, described)
        lines = text.splitlines()
        self.assertEqual(lines[0].split()[:2], ["kernel", kernel])
        return lines, plan

    def test_pointers(self):
        lines, _ = self.launch(Case("softmax", (4096, 781), "f32"))
        name, programs, threads, shared = lines[0].split()[1:]
        self.assertEqual(4096 % int(programs), 0)
        self.assertEqual(int(threads) % 32, 0)
        self.assertEqual(lines[1:], ["buffer x 12795904", "buffer y 12795904", "pointer x", "pointer y"])  # 4096 * 781 * 4

    def test_maps(self):
        case = Case("linear", (512, 1024, 256), "bf16")
        lines, _ = self.launch(case)
        rows, columns = map(int, re.search(r"_(\d+)x(\d+)x\d+ ", lines[0]).groups())
        self.assertEqual(int(lines[0].split()[2]), 512 // rows * (256 // columns))
        self.assertEqual(lines[1:5], ["buffer x 1048576", "buffer w 524288", "buffer b 512", "buffer y 262144"])
        # Type 9, 128-byte swizzle, the last axis first, its stride left out; boxes as wide as 128 bytes.
        self.assertIn("pointer b", lines)
        maps = {line.split()[1]: line.split()[2:] for line in lines if line.startswith("map ")}
        for name, (outer, inner) in {"x": (512, 1024), "w": (1024, 256), "y": (512, 256)}.items():
            self.assertEqual(maps[name][:-1], ["9", "3", "2", f"{inner}", f"{outer}", f"{2 * inner}", "64"], name)

    def test_one_launch(self):
        with self.assertRaisesRegex(cold_start.Failure, "has 3 launches"):
            self.launch(Case("linear", (512, 16, 512), "f32"), "--mode=eager")

    def test_figures(self):
        self.assertEqual(cold_start.quartiles([5.0, 1.0, 2.0, 4.0, 3.0]), [2.0, 3.0, 4.0])
        case = cold_start.CASES[0]
        pairs = {(case, "cold"): [(100.0, 180.0), (120.0, 211.0), (90.0, 179.5)], (case, "warm"): [(100.0, 140.0)]}
        added = cold_start.judged(pairs)
        self.assertEqual([(row["quartiles_ms"][1], row["ok"]) for row in added], [(89.5, True), (40.0, False)])
        samples = {
            (case, cold_start.EMBEDDED, "cold"): [{"start": 5.0, "total": total} for total in (180.0, 211.0, 179.5)],
            (case, cold_start.EMBEDDED, "warm"): [{"start": 5.0, "total": 140.0}],
            (case, "jax.jit", "cold"): [],
            (case, "jax.jit", "warm"): [],
        }
        rows = cold_start.summary(samples, {(case, "jax.jit"): "no jax"})
        lines = cold_start.markdown({"machine": {}, "pairs": added, "rows": rows}).splitlines()
        for line in (
            "| softmax 4096x781 f32 | cold | 3 | 90 (85 to 90) | 90 | held |",
            "| softmax 4096x781 f32 | warm | 1 | 40 (40 to 40) | 35 | missed |",
            "| minic, C++ | 180 (180 to 196) | 140 (140 to 140) | 3 | start 5 | start 5 |",
            "| jax.jit | - | - | 0 |  |  |",
            "- jax.jit: no jax",
        ):
            self.assertIn(line, lines)

    def starts(self, root, *words):
        bundle = str(pathlib.Path(MINIC).parents[1])
        options = cold_start.arguments(["--bundle", bundle, "--pairs", "1", "--others", "1", "--budget", "120", *words])
        return cold_start.Starts(options, pathlib.Path(root), [self.CASE])

    def test_starts(self):
        if not FAKE_DRIVER:
            self.skipTest("no driver")
        with tempfile.TemporaryDirectory() as root:
            starts = self.starts(root, "--device=cpu")
            self.assertEqual(starts.programs.failures, {})
            starts.run()
            counts = {provider: len(values) for (_, provider, cache), values in starts.samples.items() if cache == "warm"}
            for provider in (cold_start.EMBEDDED, cold_start.COMMAND_LINE, "minic, Python"):
                self.assertEqual(counts[provider], 1, starts.failures)
            warm = starts.samples[self.CASE, cold_start.EMBEDDED, "warm"][0]
            self.assertEqual(list(warm), ["start", "open", "compile", "result", "total"])
            self.assertAlmostEqual(sum(warm.values()), 2 * warm["total"], places=3)
            self.assertEqual(starts.failures[self.CASE, cold_start.BARE], "needs a GPU")

            # What is wrong is no sample.
            expected = starts.folders[self.CASE] / "expected.npy"
            expected.write_bytes(expected.read_bytes()[:-8] + b"\0" * 8)
            self.assertIsNone(starts.sample(self.CASE, cold_start.EMBEDDED, "warm"))
            self.assertIsNone(starts.sample(self.CASE, cold_start.EMBEDDED, "warm"))
            self.assertIn("wrong: error", starts.failures[self.CASE, cold_start.EMBEDDED])

            # On a driver that does nothing.
            starts = self.starts(tempfile.mkdtemp(dir=root), "--no-check")
            before, os.environ["LD_LIBRARY_PATH"] = os.environ.get("LD_LIBRARY_PATH", ""), FAKE_DRIVER
            try:
                starts.run()
            finally:
                os.environ["LD_LIBRARY_PATH"] = before
            for cache in ("cold", "warm"):
                self.assertEqual(len(starts.pairs[self.CASE, cache]), 1, starts.failures)
                self.assertEqual(len(starts.samples[self.CASE, cold_start.RUNTIME, cache]), 1, starts.failures)


if __name__ == "__main__":
    MINIC = sys.argv.pop(1)
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and os.path.isdir(sys.argv[1]):
        FAKE_DRIVER = sys.argv.pop(1)
    unittest.main()
