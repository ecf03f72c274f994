#!/usr/bin/env python3
"""How far matmuls are from f64, beside cuBLAS: RMS at most 1.1 times, maximum at most 1.5 times cuBLAS's over the seeds.

    PYTHONPATH=tools/python python3 test/gpu/check_error.py [--seeds N] [--json OUT]

Y = XW with standard normal X and W, at the sizes of tools/bench and at odd ones, in each element type and precision. Errors are relative
to |row of x| |column of w|, on up to 256 rows. cuBLAS is torch.mm (torch._scaled_mm for f8e4m3), with results of the same type; tf32 is
compared with cuBLAS's tf32, `bf16x6` with its f32. Needs torch and a GPU.
"""
import argparse
import json
import pathlib
import sys

import torch

import minic
from products import graph_text, tensor

LARGEST_RMS, LARGEST_MAX, ROWS = 1.1, 1.5, 256
SHAPES = ((8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (16, 8192, 8192), (1000, 777, 1111), (130, 4100, 72), (100, 10, 100))
TYPES = (("bf16", ""), ("f16", ""), ("f32", ""), ("f32", "tf32"), ("f32", "bf16x6"), ("f8e4m3", ""))
TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "f8e4m3": torch.float8_e4m3fn}


def graph(sizes, dtype, precision):
    n, k, m = sizes
    y = tensor((n, m), "f32" if dtype == "f8e4m3" else dtype)
    asked = f", precision = {precision}" if precision else ""
    return graph_text([("x", tensor((n, k), dtype)), ("w", tensor((k, m), dtype))], [("y", y)], [f"%y = matmul %x, %w{asked} : {y}"], "y")


def cublas(x, w, precision):
    if x.dtype == torch.float8_e4m3fn:
        one = torch.ones((), device="cuda")
        return torch._scaled_mm(x, w.t().contiguous().t(), one, one, out_dtype=torch.float32)
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    return torch.mm(x, w)


def errors(result, expected, scale):
    far = (result.double() - expected) / scale
    return float(far.pow(2).mean().sqrt()), float(far.abs().max())


def compare(sizes, dtype, precision, seeds):
    """RMS and maximum over all seeds, of minic and of cuBLAS."""
    n, k, m = sizes
    executable = minic.compile(graph(sizes, dtype, precision)).load("cuda:0")
    found = {"minic": [], "cuBLAS": []}
    for seed in range(seeds):
        generator = torch.Generator("cuda").manual_seed(seed)
        x = torch.randn(n, k, device="cuda", generator=generator).to(TORCH[dtype])
        w = torch.randn(k, m, device="cuda", generator=generator).to(TORCH[dtype])
        y = torch.full((n, m), float("nan"), device="cuda", dtype=torch.float32 if dtype == "f8e4m3" else TORCH[dtype])
        executable.run([x, w], (y,))
        rows = torch.randperm(n, device="cuda", generator=generator)[:ROWS]
        expected = x[rows].double() @ w.double()
        scale = x[rows].double().norm(dim=1)[:, None] * w.double().norm(dim=0)[None, :]
        found["minic"].append(errors(y[rows], expected, scale))
        found["cuBLAS"].append(errors(cublas(x, w, precision)[rows], expected, scale))
    return {name: (sum(rms**2 for rms, _ in each) ** 0.5 / len(each) ** 0.5, max(most for _, most in each)) for name, each in found.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    lines, failed = [], 0
    print("| shape | type | RMS, minic | cuBLAS | ratio | max, minic | cuBLAS | ratio |\n|---|---|---|---|---|---|---|---|")
    for dtype, precision in TYPES:
        for sizes in SHAPES:
            if dtype == "f8e4m3" and any(size % 16 for size in sizes[1:]):
                continue  # cuBLAS does not take them.
            found = compare(sizes, dtype, precision, options.seeds)
            (rms, most), (peer_rms, peer_most) = found["minic"], found["cuBLAS"]
            good = rms <= LARGEST_RMS * peer_rms and most <= LARGEST_MAX * peer_most
            failed += not good
            lines.append({"shape": sizes, "dtype": dtype, "precision": precision, **found})
            print(
                f"| {'x'.join(map(str, sizes))} | {dtype} {precision} | {rms:.3g} | {peer_rms:.3g} | {rms / peer_rms:.3g} | {most:.3g} | "
                f"{peer_most:.3g} | {most / peer_most:.3g} |{'' if good else ' beyond the bound'}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1) + "\n")
    print(f"{len(lines) - failed} of {len(lines)} within the bounds")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
