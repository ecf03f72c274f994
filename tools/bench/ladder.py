#!/usr/bin/env python3
"""What each step of a matmul's schedule gains: Y = ReLU(XW + b), with passes left out one after the other.

    tools/bench/ladder.py [--shape N,K,M] [--dtype bf16] [--rounds N] [--json OUT]

Every step is compiled by the same pipeline but for what it leaves out, checked against f64 and timed beside the others in one process,
in rounds of random order. Prints a table with the times, TFLOP/s and what the step gained over the one before. Needs torch and a GPU.
"""

import argparse
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

import cases
import graphs
import minic_package

# Of the pipeline behind `masked`; docs/passes.md has them all.
MACHINE = "specialize-warps,pipeline,stage-stores,persist,layout,dce,sink-reductions,online,dce,lower-exchanges,expand-math,cse,dce"


def tensor_cores(bm, bn, stages, raster=8):
    return f"#matmul<bm = {bm}, bn = {bn}, bk = 64, unit = wgmma, stages = {stages}, raster = {raster}>"


# (what the step adds, its schedule, passes that it leaves out)
STEPS = (
    ("fused multiply-adds", "#matmul<bm = 128, bn = 128, bk = 8, warps = [4, 2], lanes = [4, 8], vec = 4>", ()),
    ("wgmma and TMA, a block at a time", tensor_cores(64, 64, 1), ("pipeline", "stage-stores", "persist")),
    ("larger tiles: 128x256, two consumers", tensor_cores(128, 256, 1), ("pipeline", "stage-stores", "persist")),
    ("pipeline: two blocks on chip", tensor_cores(128, 256, 2), ("stage-stores", "persist")),
    ("pipeline: four", tensor_cores(128, 256, 4), ("stage-stores", "persist")),
    ("stage-stores", tensor_cores(128, 256, 4), ("persist",)),
    ("persist, row by row", tensor_cores(128, 256, 4, raster=1), ()),
    ("raster: bands of 8 rows of tiles", tensor_cores(128, 256, 4), ()),
)


def with_schedule(fused, schedule):
    start = fused.index("#matmul<")
    return fused[:start] + schedule + fused[fused.index(">", start) + 1 :]


def machine_text(minic, program, masked, left_out):
    passes = [name for name in MACHINE.split(",") if name not in left_out]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kernel.ir"
        path.write_text(masked)
        done = subprocess.run([program, "opt", str(path), f"--passes={','.join(passes)}"], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"minic opt failed:\n{done.stderr}")
    # Without the schedule, whose passes would run when this is compiled.
    return re.sub(r"schedule = #matmul<[^>]*>, ", "", done.stdout)


def artifacts(case):
    """{step: artifact}, compiled."""
    minic, program = minic_package.package(), minic_package.command_line()
    if not program:
        sys.exit("the program `minic` is not found: build it, or put it on PATH")
    fused = minic.emit(graphs.text_of(case), "fused")
    result = {}
    for name, schedule, left_out in STEPS:
        masked = minic.emit(with_schedule(fused, schedule), "masked")
        result[name] = minic.compile(machine_text(minic, program, masked, left_out))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="4096,4096,4096", help="N,K,M of [N,K] x [K,M]")
    parser.add_argument("--dtype", default="bf16", choices=("bf16", "f16"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    case = cases.Case("linear", tuple(map(int, options.shape.split(","))), options.dtype)
    compiled = artifacts(case)

    import torch

    import measure

    torch.manual_seed(0)
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[case.dtype]
    inputs = [torch.randn(sizes, device="cuda").to(dtype) for sizes in case.inputs.values()]
    (rows, length, columns), (x, w, b) = case.sizes, inputs
    sample = torch.randperm(rows, device="cuda")[:128]
    expected = torch.relu(x[sample].double() @ w.double() + b.double())
    output = torch.empty((rows, columns), dtype=dtype, device="cuda")
    measures = {}
    for name, artifact in compiled.items():
        executable = artifact.load("cuda:0")
        run = lambda executable=executable: executable.run(inputs, (output,))
        measure.poison(output)
        run()
        error = float((output[sample].double() - expected).abs().max() / expected.abs().max())
        if not error <= cases.BOUNDS[case.dtype]:
            sys.exit(f"{name}: wrong by {error:.3g} of the largest value")
        repeats = 2 if name == STEPS[0][0] else 10
        measures[name] = lambda number, run=run, repeats=repeats: measure.event_median(run, repeats)
    times = {name: statistics.median(found) for name, found in measure.interleaved(measures, options.rounds).items()}

    print(f"{case.shape} {case.dtype}, {torch.cuda.get_device_name(0)}\n\n| step | us | TFLOP/s | over the step before |\n|---|---|---|---|")
    before = None
    for name in compiled:
        gained = f"{before / times[name]:.2f}x" if before else "-"
        print(f"| {name} | {times[name] * 1e3:.0f} | {case.flops / times[name] / 1e9:.0f} | {gained} |")
        before = times[name]
    if options.json:
        options.json.write_text(json.dumps({"shape": case.shape, "dtype": case.dtype, "ms": times}, indent=1) + "\n")


if __name__ == "__main__":
    main()
