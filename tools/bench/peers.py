#!/usr/bin/env python3
"""minic beside what people use today, on one GPU: torch, torch.compile, cuBLASLt, Triton, JAX, and a plain copy as the limit.

    tools/bench/peers.py [--works softmax,linear] [--shapes 65536x1024] [--dtypes bf16] [--quick] [--numerics exact,fast]
                         [--json OUT] [--markdown OUT] [--plots DIR] [--budget SECONDS]

One process (JAX has its own, asked in the same rounds). Results are checked against f64 before anything is timed, in outputs that
held NaN; what is wrong is not timed. Then, for each shape, all providers take turns in rounds of random order. Of each row:
  ms          median of single calls between events, the L2 overwritten before each
  ms_warm     the same without overwriting: for short work it is what launching costs
  graph_ms    one call within a replayed CUDA graph of up to 20
  call_ms     what a call costs the host, without waiting for the GPU
All are medians over rounds. JAX has no events and no graphs: its ms is calls with overwriting less the overwriting, its ms_warm
calls in a row, and kernels_ms the sum of its kernels' times, which leaves out the gaps that a graph has.
torch.compile max-autotune is its mode without CUDA graphs, since graph_ms is one around it. A provider that fails, or is not run,
has its reason in `note`. gbps counts required bytes; gbps and tflops are of ms.

minic is judged in its default numerics; --numerics has it measured in others too, which are no peers. The copy of a work moves as
many bytes as the work requires, half of them read and half written, and is its limit. Sums write next to nothing: they have no
copy, and their peer is torch's own sum.
"""

import argparse
import pathlib
import sys

import cases


def names(text):
    return text.split(",")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", type=names, help=f"some of {','.join(cases.CASES)}")
    parser.add_argument("--shapes", type=names, help="only these, as 65536x1024,8192x32768")
    parser.add_argument("--dtypes", type=names, help="only these, as bf16")
    parser.add_argument("--providers", type=names, help="only these, by name")
    parser.add_argument("--numerics", type=names, default=[], help="exact, fast or both: minic in these too")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--plots", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--budget", type=float, default=480.0, metavar="SECONDS", help="drops repeats, and autotuning where late")
    parser.add_argument("--quick", action="store_true", help="the first and the last shape of each work")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--dry-run", action="store_true", help="prints works, shapes and providers; needs no GPU")
    parser.add_argument("--jax-worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--no-cupti", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    try:
        options.cases = cases.selected(options.works, options.quick, options.shapes, options.dtypes)
        cases.check_numerics(options.numerics)
    except ValueError as error:
        parser.error(str(error))
    return options


def dry_run(options):
    for work in dict.fromkeys(case.work for case in options.cases):
        print(f"{work}: {', '.join(cases.providers_of(work, options.providers, options.numerics))}")
        for case in options.cases:
            if case.work == work:
                judged = ", in a graph" if case.small else ""
                rate = f"{case.flops / 1e9:.4g} GFLOP, " if case.flops else ""
                print(f"  {case.shape} {case.dtype}: {rate}{case.required_bytes} B{judged}")


def main():
    options = arguments()
    if options.jax_worker:
        import jax_worker

        return jax_worker.serve(not options.no_cupti)
    if options.dry_run:
        return dry_run(options)
    import bench

    return bench.run(options)


if __name__ == "__main__":
    sys.exit(main())
