#!/usr/bin/env python3
"""Tables and plots of what peers.py measured.

    tools/bench/report.py RUN.json... [--markdown OUT] [--plots DIR]

Several runs are put together; a shape that is in more than one is taken from the last, so that a ratio is of one run and one shape.
Beside a table and a plot of times for each work there is one plot of all shapes, share_of_limit.svg: the time of a copy of as many
bytes over that of minic fused and of the best peer.
"""

import argparse
import json
import pathlib
import sys

import cases
import ratios
import svg

TITLES = {
    "softmax": "Softmax over rows",
    "softmax0": "Softmax over columns (axis 0)",
    "linear": "Y = ReLU(XW + b), N x K x M",
    "linear_residual": "ReLU(XW + b + R), N x K x M",
    "linear_softmax": "Softmax over rows of XW + b, N x K x M",
    "swiglu": "SiLU(XW) * XV, N x K x M",
    "layernorm": "Layer norm over rows",
    "residual_layernorm": "Layer norm of x + r over rows, and x + r",
    "rmsnorm": "RMS norm over rows",
    "bias_gelu": "GELU(x + b), with erf",
    "bias_relu": "ReLU(x + b)",
    "transpose": "Transpose",
    "sum0": "Sums of columns (axis 0)",
    "sum_all": "Sum of all elements",
    "attention": "Attention forward",
    "copy": "Copy",
}


# One family of providers, one hue, seen on white and on near black: minic blue, torch orange, its libraries brown and red, its
# compiler green, Triton violet, JAX pink, limits grey.
COLORS = {
    cases.FUSED: "#2563eb",
    cases.EXACT: "#1e3a8a",
    cases.FAST: "#0ea5e9",
    cases.EAGER: "#93b4f5",
    cases.TORCH_EAGER: "#f59e0b",
    "torch.softmax": "#b45309",
    "addmm + relu_": "#b45309",
    "F.layer_norm": "#b45309",
    "F.rms_norm": "#b45309",
    "FlashAttention 2": "#b45309",
    "cuBLASLt relu epilogue": "#dc2626",
    "cuDNN": "#dc2626",
    "torch.compile": "#047857",
    "torch.compile max-autotune": "#34d399",
    "Triton": "#7c3aed",
    "Triton row/program": "#7c3aed",
    "Triton persistent": "#b39bfb",
    "JAX": "#db2777",
    "JAX cuDNN": "#f48abf",
    cases.MATMUL_ALONE: "#7d8590",
    cases.COPY: "#7d8590",
}


def _microseconds(milliseconds):
    return f"{milliseconds * 1e3:.4g}"


def _cell(row):
    if row is None or not row["ok"]:
        return "-" if row is None or row["err"] is None else "wrong"
    time = ratios.headline(row)
    if not time:
        # A time of another kind is worth showing, but nothing is judged by it.
        other = row.get("kernels_ms") or row["ms_warm"]
        return f"({_microseconds(other)})" if other else "-"
    return _microseconds(time) + (f" ({row['tflops'] * row['ms'] / time:.3g})" if row["tflops"] else "")


def _number(value):
    return "-" if value is None else f"{value:.3g}"


def _over_best(row_of):
    best = ratios.best_peer(row_of)
    value = ratios.quotient(row_of, cases.FUSED, best["provider"]) if best else None
    return "-" if value is None else f"{value:.3g} ({best['provider']})"


def _rate(row_of):
    row = row_of.get(cases.FUSED)
    return f"{row['gbps']:.0f}" if row and row["gbps"] else "-"


def _columns(work):
    """What is said of a shape beside its times: {title: function of its rows}."""
    columns = {"minic fused / best peer": _over_best}
    if ratios.limit_of(work):
        columns["share of the limit"] = lambda row_of: _number(ratios.quotient(row_of, ratios.limit_of(work), cases.FUSED))
    if work in cases.SUMS:
        columns["minic fused, GB/s"] = _rate
    if cases.EAGER in cases.PROVIDERS[work]:
        columns["minic eager / minic fused"] = lambda row_of: _number(ratios.quotient(row_of, cases.EAGER, cases.FUSED))
        columns["torch eager / minic eager"] = lambda row_of: _number(ratios.quotient(row_of, cases.TORCH_EAGER, cases.EAGER))
    return columns


def table(header, lines):
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *("| " + " | ".join(line) + " |" for line in lines)]


def _providers(rows):
    present = {row["provider"] for row in rows}
    return [name for name in cases.PROVIDERS[rows[0]["work"]] if name in present]


def _work_section(work, rows):
    providers = _providers(rows)
    groups = ratios.grouped(rows)
    unit = "us (TFLOP/s)" if any(row["tflops"] for row in rows) else "us"
    lines = [f"## {TITLES[work]} ({unit})", ""]
    columns = _columns(work)
    lines += table(
        ["shape", *providers, *columns],
        [
            [
                ratios.label(row_of),
                *(_cell(row_of.get(name)) for name in providers),
                *(column(row_of) for column in columns.values()),
            ]
            for row_of in groups.values()
        ],
    )
    lines += ["", *_notes(rows)]
    return [*lines, ""] if lines[-1] else lines


def _notes(rows):
    """Each remark once, with the provider and the shapes that it is about."""
    shapes = {}
    for row in rows:
        if row["note"]:
            shapes.setdefault((row["provider"], row["note"]), []).append(f"{row['shape']} {row['dtype']}")
    count = len(ratios.grouped(rows))
    for (provider, note), where in shapes.items():
        places = "" if len(where) == count else f" ({', '.join(where)})"
        yield f"- {provider}{places}: {note}"


def _host_section(rows):
    """The smallest shapes: what a call costs the host, and the whole of launching."""
    lines = [
        [
            row["work"],
            f"{row['shape']} {row['dtype']}",
            row["provider"],
            _microseconds(row["call_ms"]),
            _microseconds(row["ms_warm"]),
            f"{row['first_call_s']:.3g}",
        ]
        for row in rows
        if row["small"] and row["call_ms"] and row["ms_warm"] and row["first_call_s"] is not None
    ]
    if not lines:
        return []
    header = ["work", "shape", "provider", "host per call, us", "call after call, us", "first call, s"]
    return ["## Calls from the host, small shapes", "", *table(header, lines), ""]


def _errors_section(rows):
    """The largest error of each provider at each work and type."""
    worst = {}
    for row in rows:
        if row["err"] is not None:
            key = row["work"], row["dtype"], row["provider"]
            worst[key] = max(worst.get(key, 0.0), row["err"])
    lines = [[work, dtype, provider, f"{err:.1e}", f"{cases.BOUNDS[dtype]:.0e}"] for (work, dtype, provider), err in worst.items()]
    return ["## Errors", "", *table(["work", "type", "provider", "largest error", "allowed"], lines), ""] if lines else []


def machine_lines(machine):
    versions = ", ".join(f"{name} {version}" for name, version in machine.get("versions", {}).items())
    clocks = f"SM {machine.get('sm_clock', '?')} of {machine.get('sm_clock_max', '?')}, memory {machine.get('memory_clock', '?')}"
    return [
        f"{machine.get('gpu', 'no GPU')}, driver {machine.get('driver', '?')}, {machine.get('date', '?')};",
        f"clocks at the start: {clocks}; {versions}; by",
        "",
        f"    {machine.get('command', '?')}",
        "",
    ]


def markdown(documents):
    lines = ["# minic beside its peers", ""]
    for document in documents:
        lines += machine_lines(document["machine"])
    lines += [
        "Times are medians over rounds in which all providers of a shape take turns in random order; each result was first",
        "checked against f64. 'graph': one call within a replayed CUDA graph; elsewhere single calls with a cold L2. In",
        "parentheses after a time: TFLOP/s; a time in parentheses alone is the sum of JAX's kernels' times, and nothing is",
        "judged by it. Of the last columns: over the best peer's time, below 1 minic is faster; the share of the limit is the",
        "time of a copy of as many bytes, half of them read and half written, over that of minic fused. Limits (the copy, the",
        "matmul alone) are no peers, nor is minic in other numerics than the default. torch.compile max-autotune is its mode",
        "without CUDA graphs, so that it can be put into one.",
        "",
    ]
    rows = ratios.rows_of(documents)
    for work in dict.fromkeys(row["work"] for row in rows):
        lines += _work_section(work, [row for row in rows if row["work"] == work])
    return "\n".join(lines + _host_section(rows) + _errors_section(rows)).rstrip("\n") + "\n"


def plot(work, rows):
    """Times over that of the best peer, as SVG text; None where nothing can be compared."""
    groups = {}
    for (shape, dtype), row_of in ratios.grouped(rows).items():
        best = ratios.best_peer(row_of)
        times = {name: ratios.quotient(row_of, name, best["provider"]) for name in _providers(rows)} if best else {}
        bars = {name: time for name, time in times.items() if time}
        if bars:
            groups[f"{shape} {dtype}"] = bars
    colors = {name: COLORS[name] for name in _providers(rows)}
    return svg.grouped_bars(TITLES[work], "time over the best peer's (less is faster)", groups, colors) if groups else None


def plot_of_shares(rows):
    """How near each shape of each work comes to its limit, as SVG text; None where no limit was measured."""
    groups = {}
    for work in dict.fromkeys(row["work"] for row in rows if ratios.limit_of(row["work"])):
        for row_of in ratios.grouped([row for row in rows if row["work"] == work]).values():
            best = ratios.best_peer(row_of)
            shares = {
                cases.FUSED: ratios.quotient(row_of, ratios.limit_of(work), cases.FUSED),
                "best peer": ratios.quotient(row_of, ratios.limit_of(work), best["provider"]) if best else None,
            }
            bars = {name: share for name, share in shares.items() if share}
            if bars:
                groups[f"{work} {ratios.label(row_of)}"] = bars
    colors = {cases.FUSED: COLORS[cases.FUSED], "best peer": COLORS[cases.TORCH_EAGER]}
    label = "time of a copy of as many bytes over that of the work (more is faster)"
    return svg.grouped_bars("Share of the limit", label, groups, colors, suffix="", linear=True) if groups else None


# Of 16-bit matrix products without sparsity, FLOP/s. Source: NVIDIA H200 datasheet.
TENSOR_PEAK = 989e12


def plot_of_ceiling(rows):
    """What share of the tensor cores' peak each size of a 16-bit linear layer reaches, as SVG text; None without one."""
    groups = {}
    for row_of in ratios.grouped([row for row in rows if row["work"] == "linear" and row["dtype"] in ("bf16", "f16")]).values():
        best = ratios.best_peer(row_of)
        bars = {}
        for name, row in ((cases.FUSED, row_of.get(cases.FUSED)), ("best peer", best)):
            if row and row["tflops"]:
                bars[name] = row["tflops"] * 1e12 / TENSOR_PEAK * row["ms"] / ratios.headline(row)
        if bars:
            groups[ratios.label(row_of)] = bars
    colors = {cases.FUSED: COLORS[cases.FUSED], "best peer": COLORS[cases.TORCH_EAGER]}
    label = "share of 989 TFLOP/s (more is faster)"
    return svg.grouped_bars("Share of the tensor cores' peak", label, groups, colors, suffix="", linear=True) if groups else None


def write(documents, markdown_path=None, plots=None):
    if markdown_path:
        markdown_path.write_text(markdown(documents))
    if plots:
        plots.mkdir(parents=True, exist_ok=True)
        rows = ratios.rows_of(documents)
        works = dict.fromkeys(row["work"] for row in rows)
        texts = {work: plot(work, [row for row in rows if row["work"] == work]) for work in works}
        for name, text in {**texts, "share_of_limit": plot_of_shares(rows), "share_of_peak": plot_of_ceiling(rows)}.items():
            if text:
                (plots / f"{name}.svg").write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--plots", type=pathlib.Path, metavar="DIR")
    options = parser.parse_args()
    documents = [json.loads(path.read_text()) for path in options.runs]
    write(documents, options.markdown, options.plots)
    if not options.markdown and not options.plots:
        print(markdown(documents), end="")


if __name__ == "__main__":
    sys.exit(main())
