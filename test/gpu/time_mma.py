#!/usr/bin/env python3
"""Times products on the tensor cores of a warp (mma.sync) beside torch, on any GPU from sm_80 on.

    PYTHONPATH=tools/python test/gpu/time_mma.py [--target sm_80] [--sizes 4096,8192] [--dtype bf16|f16|tf32|f64|i8] [--schedules FILE] [--rounds N] [--check]

Each schedule (one a line of FILE, else some around the cost model's choice, and that itself as `chosen`) is put into the fused text. Results are
compared with torch's product in f64 first, and must be the same bits in a second run. Times are medians of rounds in which all run in random
order, over random data; `ratio` is torch's time by this one's, of tf32 with allow_tf32, of i8 torch._int_mm. --check only checks, --layouts
tn,nt,tt adds transposed operands.
"""
import argparse
import random
import re
import statistics
import sys

import torch

import minic

# Elements of operands and results in the graph, and in torch.
DTYPES = {
    "bf16": ("bf16", "bf16", torch.bfloat16, torch.bfloat16),
    "f16": ("f16", "f16", torch.float16, torch.float16),
    "tf32": ("f32", "f32", torch.float32, torch.float32),
    "f64": ("f64", "f64", torch.float64, torch.float64),
    "i8": ("i8", "i32", torch.int8, torch.int32),
}
# Relative to a result and to the mean of all.
TOLERANCE = {"bf16": (2.0**-7, 0.02), "f16": (2.0**-7, 0.02), "tf32": (2.0**-10, 0.005), "f64": (0, 1e-13), "i8": (0, 0)}
# bm, bn, bytes of a block's rows of k, warps, stages.
SCHEDULES = """
128 256 64 2 4 3
128 256 64 2 4 4
128 256 64 2 4 5
128 256 128 2 4 3
256 128 128 4 2 3
256 128 64 4 2 4
128 128 64 2 2 4
128 128 128 2 2 3
128 128 64 2 4 4
128 128 128 2 4 3
"""
SCHEDULES_OF_F64 = """
128 64 128 4 2 3
128 64 128 4 2 4
128 64 128 2 2 3
64 128 128 2 4 3
64 128 128 2 4 4
128 128 128 4 2 3
128 128 128 2 4 3
128 128 128 4 4 3
64 64 128 2 2 3
64 64 128 2 2 4
64 64 256 2 2 3
"""


def schedules_of(dtype):
    size = {"i8": 1, "tf32": 4, "f64": 8}.get(dtype, 2)
    rows = (SCHEDULES_OF_F64 if dtype == "f64" else SCHEDULES).split("\n")
    return [
        f"bm = {bm}, bn = {bn}, bk = {k // size}, unit = mma, warps = [{warps_m}, {warps_n}], stages = {stages}, raster = 8"
        for bm, bn, k, warps_m, warps_n, stages in (map(int, row.split()) for row in rows if row)
    ]


def graph(m, n, k, dtype, layout):
    operand, result = DTYPES[dtype][:2]
    x = f"%x: tensor<{k}x{m}x{operand}>" if layout[0] == "t" else f"%x: tensor<{m}x{k}x{operand}>"
    w = f"%w: tensor<{n}x{k}x{operand}>" if layout[1] == "t" else f"%w: tensor<{k}x{n}x{operand}>"
    lines = []
    if layout[0] == "t":
        lines.append(f"  %xt = transpose %x, perm = [1, 0] : tensor<{m}x{k}x{operand}>")
    if layout[1] == "t":
        lines.append(f"  %wt = transpose %w, perm = [1, 0] : tensor<{k}x{n}x{operand}>")
    a, b = "%xt" if layout[0] == "t" else "%x", "%wt" if layout[1] == "t" else "%w"
    lines.append(f"  %y = matmul {a}, {b}{', precision = tf32' if dtype == 'tf32' else ''} : tensor<{m}x{n}x{result}>")
    return f"graph @g({x}, {w}) -> (y: tensor<{m}x{n}x{result}>) {{\n" + "\n".join(lines) + "\n  return %y\n}\n"


def event_time(run, calls):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / calls


def compare(name, run, y, expected, tolerance):
    """True if two runs give the same bits, near the product in f64."""
    results = []
    for _ in range(2):
        y.fill_(float("nan") if y.is_floating_point() else 1 << 30)
        run()
        torch.cuda.synchronize()
        results.append(y.clone())
    same = torch.equal(results[0].view(torch.uint8), results[1].view(torch.uint8))
    relative, of_mean = tolerance
    error = (results[0].double() - expected).abs() - expected.abs() * relative - of_mean * expected.abs().mean()
    beyond = error.max().item()
    if not same or not beyond <= 0:
        print(f"  {name}: WRONG, same bits {same}, beyond the bound by {beyond}")
    return same and beyond <= 0


def random_operand(shape, dtype):
    if dtype == torch.int8:
        return torch.randint(-128, 128, shape, device="cuda", dtype=dtype)
    return torch.randn(shape, device="cuda", dtype=torch.float64 if dtype == torch.float64 else torch.float32).to(dtype)


def one_size(m, n, k, layout, options, schedules):
    operand, result = DTYPES[options.dtype][2:]
    x = random_operand((k, m) if layout[0] == "t" else (m, k), operand)
    w = random_operand((n, k) if layout[1] == "t" else (k, n), operand)
    a, b = x.t() if layout[0] == "t" else x, w.t() if layout[1] == "t" else w
    y, z = torch.empty(m, n, device="cuda", dtype=result), torch.empty(m, n, device="cuda", dtype=result)
    torch.backends.cuda.matmul.allow_tf32 = options.dtype == "tf32"
    expected = a.double() @ b.double()
    of_torch = (lambda: torch._int_mm(a, b, out=z)) if options.dtype == "i8" else (lambda: torch.matmul(a, b, out=z))
    fused = minic.emit(graph(m, n, k, options.dtype, layout), "fused", target=options.target)
    found = re.search("#matmul<[^>]*>", fused)
    if not found:
        sys.exit(f"no #matmul schedule in\n{fused}")
    candidates, ok = {"torch": of_torch}, True
    for schedule in [None, *schedules]:
        text = fused.replace(found.group(0), f"#matmul<{schedule}>") if schedule else fused
        name = schedule or "chosen: " + found.group(0)
        try:
            executable = minic.compile(text, strides="dense").load("cuda")
        except minic.MinicError as error:
            print(f"  {name}: {error}")
            ok = False
            continue
        run = lambda executable=executable: executable.run([x, w], [y])
        if compare(name, run, y, expected, TOLERANCE[options.dtype]):
            candidates[name] = run
        else:
            ok = False
    print(f"{m}x{n}x{k} {layout}: {len(candidates) - 1} of {1 + len(schedules)} right", flush=True)
    if options.check:
        return ok
    times = {name: [] for name in candidates}
    calls = max(1, int(2e12 / (2 * m * n * k)))
    for _ in range(options.rounds):
        for name in random.sample(list(candidates), len(candidates)):
            candidates[name]()
            times[name].append(event_time(candidates[name], calls))
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, ms in sorted(medians.items(), key=lambda item: item[1]):
        print(f"  {ms * 1e3:9.1f} us  {2 * m * n * k / ms / 1e9:7.1f} TFLOP/s  ratio {medians['torch'] / ms:.3f}  {name}", flush=True)
    return ok


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--target", default="sm_80")
    parser.add_argument("--sizes", default="4096,8192", help="N or MxNxK, separated by commas")
    parser.add_argument("--layouts", default="nn")
    parser.add_argument("--dtype", default="bf16", choices=sorted(DTYPES))
    parser.add_argument("--schedules")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    schedules = schedules_of(options.dtype)
    if options.schedules:
        schedules = [line.strip() for line in open(options.schedules).read().splitlines() if line.strip()]
    ok = True
    for size in options.sizes.split(","):
        numbers = [int(part) for part in size.split("x")]
        m, n, k = numbers * 3 if len(numbers) == 1 else numbers
        for layout in options.layouts.split(","):
            ok &= one_size(m, n, k, layout, options, schedules)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
