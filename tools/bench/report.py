#!/usr/bin/env python3
"""Tables and plots of what peers.py measured.

    tools/bench/report.py RUN.json... [--markdown OUT] [--plots DIR]

Several runs are put together; a ratio is always of one run and one shape.
"""

import argparse
import json
import pathlib
import sys

import cases
import svg

TITLES = {
    "softmax": "Softmax over rows",
    "linear": "Y = ReLU(XW + b), N x K x M",
    "layernorm": "Layer norm over rows",
    "rmsnorm": "RMS norm over rows",
    "bias_gelu": "GELU(x + b), with erf",
    "attention": "Attention forward",
    "copy": "Copy",
}


# One family of providers, one hue, seen on white and on near black: minic blue, torch orange, its libraries brown and red, its
# compiler green, Triton violet, JAX pink, limits grey.
COLORS = {
    cases.FUSED: "#2563eb",
    cases.EAGER: "#93b4f5",
    "torch eager": "#f59e0b",
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


def headline(row):
    """The time that a row is judged by: inside a graph where launching takes as long as the work, else with a cold L2."""
    return row["graph_ms"] if row["small"] else row["ms"]


def grouped(rows):
    """{(shape, dtype): {provider: row}}, in the order of the rows."""
    groups = {}
    for row in rows:
        groups.setdefault((row["shape"], row["dtype"]), {})[row["provider"]] = row
    return groups


def is_peer(row):
    """Neither minic nor only a limit; the copy is a peer at copying."""
    return row["provider"] not in cases.MINIC and (row["provider"] not in cases.REFERENCES or row["work"] == "copy")


def best_peer(row_of):
    """The row of the fastest peer; None if none has a time."""
    peers = [row for row in row_of.values() if is_peer(row) and row["ok"] and headline(row)]
    return min(peers, key=headline) if peers else None


def _microseconds(milliseconds):
    return f"{milliseconds * 1e3:.4g}"


def _cell(row):
    if row is None or not row["ok"]:
        return "-" if row is None or row["err"] is None else "wrong"
    time = headline(row)
    if not time:
        # A time of another kind is worth showing, but nothing is judged by it.
        other = row.get("kernels_ms") or row["ms_warm"]
        return f"({_microseconds(other)})" if other else "-"
    return _microseconds(time) + (f" ({row['tflops'] * row['ms'] / time:.3g})" if row["tflops"] else "")


def _ratio(row_of):
    ours, best = row_of.get(cases.FUSED), best_peer(row_of)
    if not ours or not ours["ok"] or not headline(ours) or not best:
        return "-"
    return f"{headline(ours) / headline(best):.3g} ({best['provider']})"


def table(header, lines):
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *("| " + " | ".join(line) + " |" for line in lines)]


def _providers(rows):
    present = {row["provider"] for row in rows}
    return [name for name in cases.PROVIDERS[rows[0]["work"]] if name in present]


def _work_section(work, rows):
    providers = _providers(rows)
    groups = grouped(rows)
    unit = "us (TFLOP/s)" if any(row["tflops"] for row in rows) else "us"
    lines = [f"## {TITLES[work]} ({unit})", ""]
    lines += table(
        ["shape", *providers, "minic fused / best peer"],
        [
            [
                f"{shape} {dtype}" + (", graph" if next(iter(row_of.values()))["small"] else ""),
                *(_cell(row_of.get(name)) for name in providers),
                _ratio(row_of),
            ]
            for (shape, dtype), row_of in groups.items()
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
    count = len(grouped(rows))
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
        "Times are medians over rounds in which all providers of a shape take turns in random order; each result was first checked",
        "against f64. 'graph': one call within a replayed CUDA graph; elsewhere single calls with a cold L2. In parentheses after",
        "a time: TFLOP/s; a time in parentheses alone is the sum of JAX's kernels' times, and nothing is judged by it. The last",
        "column compares times: below 1, minic is faster. Limits (the copy, the matmul alone) are no peers. torch.compile max-autotune",
        "is its mode without CUDA graphs, so that it can be put into one.",
        "",
    ]
    rows = [row for document in documents for row in document["rows"]]
    for work in dict.fromkeys(row["work"] for row in rows):
        lines += _work_section(work, [row for row in rows if row["work"] == work])
    return "\n".join(lines + _host_section(rows) + _errors_section(rows)).rstrip("\n") + "\n"


def plot(work, rows):
    """Times over that of the best peer, as SVG text; None where nothing can be compared."""
    groups = {}
    for (shape, dtype), row_of in grouped(rows).items():
        best = best_peer(row_of)
        bars = {
            name: headline(row_of[name]) / headline(best)
            for name in _providers(rows)
            if best and name in row_of and row_of[name]["ok"] and headline(row_of[name])
        }
        if bars:
            groups[f"{shape} {dtype}"] = bars
    colors = {name: COLORS[name] for name in _providers(rows)}
    return svg.grouped_bars(TITLES[work], "time over the best peer's (less is faster)", groups, colors) if groups else None


def write(documents, markdown_path=None, plots=None):
    if markdown_path:
        markdown_path.write_text(markdown(documents))
    if plots:
        plots.mkdir(parents=True, exist_ok=True)
        rows = [row for document in documents for row in document["rows"]]
        for work in dict.fromkeys(row["work"] for row in rows):
            text = plot(work, [row for row in rows if row["work"] == work])
            if text:
                (plots / f"{work}.svg").write_text(text)


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
