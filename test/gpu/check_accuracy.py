#!/usr/bin/env python3
"""Whether softmax, layer norm and a linear layer in f16 and bf16, written plainly, are as accurate as torch's own ops.

    PYTHONPATH=... python3 test/gpu/check_accuracy.py [--json]

Both run on the GPU on the same random tensors and are compared with f64. Fails where minic's RMS error is more than 1.1 times torch's, or
its largest error more than 1.5 times, over five seeds.
"""
import argparse
import json
import sys

import torch

import minic

SEEDS = range(5)
RMS, LARGEST = 1.1, 1.5

TEXTS = {
    "softmax": """graph @f(%x: tensor<MxNxT>) -> (y: tensor<MxNxT>) {
  %m = reduce max %x, axes = [1] : tensor<MxT>
  %mb = broadcast %m, dims = [0] : tensor<MxNxT>
  %z = sub %x, %mb : tensor<MxNxT>
  %e = exp %z : tensor<MxNxT>
  %s = reduce sum %e, axes = [1] : tensor<MxT>
  %sb = broadcast %s, dims = [0] : tensor<MxNxT>
  %y = div %e, %sb : tensor<MxNxT>
  return %y
}""",
    "softmax (op)": """graph @f(%x: tensor<MxNxT>) -> (y: tensor<MxNxT>) {
  %y = softmax %x, axis = 1 : tensor<MxNxT>
  return %y
}""",
    "layernorm (op)": """graph @f(%x: tensor<MxNxT>, %g: tensor<NxT>, %b: tensor<NxT>) -> (y: tensor<MxNxT>) {
  %y = layernorm %x, %g, %b, axes = [1], eps = 1e-05 : tensor<MxNxT>
  return %y
}""",
    "linear": """graph @f(%x: tensor<MxNxT>, %w: tensor<NxKxT>, %b: tensor<KxT>) -> (y: tensor<MxKxT>) {
  %a = matmul %x, %w : tensor<MxKxT>
  %bb = broadcast %b, dims = [1] : tensor<MxKxT>
  %z = add %a, %bb : tensor<MxKxT>
  %y = relu %z : tensor<MxKxT>
  return %y
}""",
}


def torch_op(name, tensors):
    if name.startswith("softmax"):
        return torch.softmax(tensors[0], 1)
    if name.startswith("layernorm"):
        return torch.nn.functional.layer_norm(tensors[0], tensors[0].shape[1:], tensors[1], tensors[2], 1e-5)
    return torch.relu(torch.nn.functional.linear(tensors[0], tensors[1].T, tensors[2]))


def inputs(name, shape, dtype, seed):
    random = torch.Generator("cuda").manual_seed(seed)
    rows, columns = shape

    def normal(*sizes):
        return torch.randn(sizes, generator=random, device="cuda").to(dtype)

    if name.startswith("softmax"):
        return [normal(rows, columns) * 4]
    if name.startswith("layernorm"):
        return [normal(rows, columns) * 2 + 1, normal(columns), normal(columns)]
    return [normal(rows, columns), normal(columns, 512) / columns**0.5, normal(512)]


def errors(got, right):
    difference = (got.double() - right).abs()
    return float(difference.square().mean().sqrt()), float(difference.max())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows, bad = [], 0
    for name, text in TEXTS.items():
        for word, dtype in (("f16", torch.float16), ("bf16", torch.bfloat16)):
            run = minic.compile(text.replace("T>", word + ">"), device="cuda", numerics="default").load("cuda")
            for shape in ((4096, 1024), (512, 8192), (1000, 781), (65, 33)):
                sums = []
                for seed in SEEDS:
                    tensors = inputs(name, shape, dtype, seed)
                    right = torch_op(name, [tensor.double() for tensor in tensors])
                    sums.append(errors(run(*tensors), right) + errors(torch_op(name, tensors), right))
                rms, largest, torch_rms, torch_largest = (sum(column) / len(column) for column in zip(*sums))
                good = rms <= RMS * torch_rms and largest <= LARGEST * torch_largest
                bad += not good
                rows.append({"op": name, "type": word, "shape": shape, "rms": rms / torch_rms, "largest": largest / torch_largest, "good": good})
                if not options.json:
                    print(f"{name:15} {word:4} {shape[0]:5}x{shape[1]:<5} RMS {rms / torch_rms:6.3f}  largest {largest / torch_largest:6.3f}"
                          f"{'' if good else '  WORSE'}", flush=True)
    if options.json:
        print(json.dumps(rows))
    return bad > 0


if __name__ == "__main__":
    sys.exit(main())
