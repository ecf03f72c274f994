#!/usr/bin/env python3
"""Times products on the tensor cores of a warp (mma.sync) beside torch, on any GPU from sm_80 on.

    PYTHONPATH=tools/python test/gpu/time_mma.py [--target sm_80] [--sizes 4096,8192] [--dtype bf16|f16] [--schedules FILE] [--rounds N] [--check]

Each schedule (one a line of FILE, else some around the cost model's choice, and that itself as `chosen`) is put into the fused text. Results are
compared with torch's f32 product first, and must be the same bits in a second run. Times are medians of rounds in which all run in random
order, over random data; `ratio` is torch's time by this one's. --check only checks, --layouts tn,nt,tt adds transposed operands.
"""
import argparse
import random
import re
import statistics
import sys

import torch

import minic

DTYPES = {"bf16": torch.bfloat16, "f16": torch.float16}
SCHEDULES = """
bm = 128, bn = 256, bk = 32, unit = mma, warps = [2, 4], stages = 3, raster = 8
bm = 128, bn = 256, bk = 32, unit = mma, warps = [2, 4], stages = 4, raster = 8
bm = 128, bn = 256, bk = 32, unit = mma, warps = [2, 4], stages = 5, raster = 8
bm = 128, bn = 256, bk = 64, unit = mma, warps = [2, 4], stages = 3, raster = 8
bm = 256, bn = 128, bk = 64, unit = mma, warps = [4, 2], stages = 3, raster = 8
bm = 256, bn = 128, bk = 32, unit = mma, warps = [4, 2], stages = 4, raster = 8
bm = 128, bn = 128, bk = 32, unit = mma, warps = [2, 2], stages = 4, raster = 8
bm = 128, bn = 128, bk = 64, unit = mma, warps = [2, 2], stages = 3, raster = 8
bm = 128, bn = 128, bk = 32, unit = mma, warps = [2, 2], stages = 4, raster = 16
bm = 128, bn = 128, bk = 32, unit = mma, warps = [2, 4], stages = 4, raster = 8
bm = 128, bn = 128, bk = 64, unit = mma, warps = [2, 4], stages = 3, raster = 8
"""


def graph(m, n, k, dtype, layout):
    x = f"%x: tensor<{k}x{m}x{dtype}>" if layout[0] == "t" else f"%x: tensor<{m}x{k}x{dtype}>"
    w = f"%w: tensor<{n}x{k}x{dtype}>" if layout[1] == "t" else f"%w: tensor<{k}x{n}x{dtype}>"
    lines = []
    if layout[0] == "t":
        lines.append(f"  %xt = transpose %x, perm = [1, 0] : tensor<{m}x{k}x{dtype}>")
    if layout[1] == "t":
        lines.append(f"  %wt = transpose %w, perm = [1, 0] : tensor<{k}x{n}x{dtype}>")
    a, b = "%xt" if layout[0] == "t" else "%x", "%wt" if layout[1] == "t" else "%w"
    lines.append(f"  %y = matmul {a}, {b} : tensor<{m}x{n}x{dtype}>")
    return f"graph @g({x}, {w}) -> (y: tensor<{m}x{n}x{dtype}>) {{\n" + "\n".join(lines) + "\n  return %y\n}\n"


def event_time(run, calls):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        run()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / calls


def compare(name, run, y, expected):
    """True if two runs give the same bits, near the f32 product."""
    results = []
    for _ in range(2):
        y.fill_(float("nan"))
        run()
        torch.cuda.synchronize()
        results.append(y.clone())
    same = torch.equal(results[0].view(torch.int16), results[1].view(torch.int16))
    far = ((results[0].float() - expected).abs() / (expected.abs() * 2.0**-7 + 0.02 * expected.abs().mean())).max().item()
    if not same or not far <= 1:
        print(f"  {name}: WRONG, same bits {same}, error over bound {far}")
    return same and far <= 1


def one_size(m, n, k, layout, options, schedules):
    dtype = DTYPES[options.dtype]
    x = torch.randn(*((k, m) if layout[0] == "t" else (m, k)), device="cuda").to(dtype)
    w = torch.randn(*((n, k) if layout[1] == "t" else (k, n)), device="cuda").to(dtype)
    a, b = x.t() if layout[0] == "t" else x, w.t() if layout[1] == "t" else w
    y, z = torch.empty(m, n, device="cuda", dtype=dtype), torch.empty(m, n, device="cuda", dtype=dtype)
    torch.backends.cuda.matmul.allow_tf32 = False
    expected = a.float() @ b.float()
    fused = minic.emit(graph(m, n, k, options.dtype, layout), "fused", target=options.target)
    found = re.search("#matmul<[^>]*>", fused)
    if not found:
        sys.exit(f"no #matmul schedule in\n{fused}")
    candidates, ok = {"torch": lambda: torch.matmul(a, b, out=z)}, True
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
        if compare(name, run, y, expected):
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
    text = open(options.schedules).read() if options.schedules else SCHEDULES
    schedules = [line.strip() for line in text.splitlines() if line.strip()]
    ok = True
    for size in options.sizes.split(","):
        numbers = [int(part) for part in size.split("x")]
        m, n, k = numbers * 3 if len(numbers) == 1 else numbers
        for layout in options.layouts.split(","):
            ok &= one_size(m, n, k, layout, options, schedules)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
