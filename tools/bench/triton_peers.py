"""The works as Triton kernels, as its tutorials write them."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_row(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    v = tl.load(x + row * columns + offsets, mask=mask, other=-float("inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * columns + offsets, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=mask)


@triton.jit
def softmax_persistent(x, y, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        start = row.to(tl.int64) * columns
        v = tl.load(x + start + offsets, mask=mask, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, 0))
        tl.store(y + start + offsets, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=mask)


@triton.jit
def layernorm_row(x, gamma, beta, y, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    v = tl.load(x + row * columns + offsets, mask=mask, other=0.0).to(tl.float32)
    centered = tl.where(mask, v - tl.sum(v, 0) / columns, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centered * centered, 0) / columns + eps)
    g = tl.load(gamma + offsets, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(beta + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(y + row * columns + offsets, (centered * scale * g + b).to(y.dtype.element_ty), mask=mask)


@triton.jit
def rmsnorm_row(x, gamma, y, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    v = tl.load(x + row * columns + offsets, mask=mask, other=0.0).to(tl.float32)
    scale = 1 / tl.sqrt(tl.sum(v * v, 0) / columns + eps)
    g = tl.load(gamma + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(y + row * columns + offsets, (v * scale * g).to(y.dtype.element_ty), mask=mask)


@triton.jit
def bias_gelu_flat(x, bias, y, elements, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < elements
    z = tl.load(x + offsets, mask=mask).to(tl.float32) + tl.load(bias + offsets % columns, mask=mask).to(tl.float32)
    tl.store(y + offsets, (0.5 * z * (1 + tl.erf(z * 0.7071067811865476))).to(y.dtype.element_ty), mask=mask)


@triton.jit
def copy_flat(x, y, elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < elements
    tl.store(y + offsets, tl.load(x + offsets, mask=mask), mask=mask)


@triton.jit
def matmul_bias_relu(
    x, w, b, y, N, K, M, BN: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, PRECISION: tl.constexpr
):
    program = tl.program_id(0)
    across = tl.cdiv(M, BM)
    first = program // (GROUP * across) * GROUP
    height = min(tl.cdiv(N, BN) - first, GROUP)
    n = (first + program % (GROUP * across) % height) * BN + tl.arange(0, BN)
    m = program % (GROUP * across) // height * BM + tl.arange(0, BM)
    k = tl.arange(0, BK)
    xs = x + (n % N)[:, None] * K + k[None, :]
    ws = w + k[:, None] * M + (m % M)[None, :]
    sums = tl.zeros((BN, BM), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        left = K - step * BK
        sums = tl.dot(
            tl.load(xs, mask=k[None, :] < left, other=0.0),
            tl.load(ws, mask=k[:, None] < left, other=0.0),
            sums,
            input_precision=PRECISION,
        )
        xs += BK
        ws += BK * M
    sums = tl.maximum(sums + tl.load(b + m, mask=m < M, other=0.0).to(tl.float32)[None, :], 0.0)
    tl.store(y + n[:, None].to(tl.int64) * M + m[None, :], sums.to(y.dtype.element_ty), mask=(n[:, None] < N) & (m[None, :] < M))


def _configs(*rows):
    return [
        triton.Config({"BN": bn, "BM": bm, "BK": bk, "GROUP": 8}, num_warps=warps, num_stages=stages)
        for bn, bm, bk, warps, stages in rows
    ]


# Few, since each is compiled for each type and alignment. Those that ask for too much shared memory are passed over by the tuner.
_KEY = ["N", "K", "M", "PRECISION"]
_LARGE = triton.autotune(_configs((128, 256, 64, 8, 3), (128, 128, 64, 8, 4), (128, 128, 32, 4, 4), (64, 128, 32, 4, 4)), _KEY)(
    matmul_bias_relu
)
_SMALL = triton.autotune(_configs((16, 64, 128, 4, 4), (16, 32, 256, 4, 3), (64, 64, 32, 4, 3), (32, 32, 32, 2, 3)), _KEY)(
    matmul_bias_relu
)


def _warps(block, least=1):
    return 32 if block >= 32768 else max(least, min(16, block // 256))


def _row_launch(kernel, tensors, extra=()):
    """One program a row."""
    rows, columns = tensors[0].shape
    block = triton.next_power_of_2(columns)
    return lambda: kernel[(rows,)](*tensors, columns, *extra, BLOCK=block, num_warps=_warps(block))


def _softmax(provider, inputs, y):
    (x,) = inputs
    if provider == "Triton row/program":
        return _row_launch(softmax_row, (x, y))
    rows, columns = x.shape
    block = triton.next_power_of_2(columns)
    warps = _warps(block, least=4)
    processors = torch.cuda.get_device_properties(0).multi_processor_count
    # As many programs as fit by threads, with room for registers; stages by the shared memory that rows in flight take.
    programs = min(rows, processors * max(1, 32 // warps))
    stages = 4 if block * x.element_size() <= 16384 else 2
    return lambda: softmax_persistent[(programs,)](x, y, rows, columns, BLOCK=block, STAGES=stages, num_warps=warps)


def _linear(case, inputs, y):
    x, w, b = inputs
    n, k, m = case.sizes
    kernel = _SMALL if min(n, k, m) <= 128 else _LARGE
    precision = "ieee" if case.dtype == "f32" else "tf32"

    def grid(meta):
        return (triton.cdiv(n, meta["BN"]) * triton.cdiv(m, meta["BM"]),)

    return lambda: kernel[grid](x, w, b, y, n, k, m, PRECISION=precision)


def _flat(kernel, tensors, extra=(), block=2048):
    elements = tensors[0].numel()
    return lambda: kernel[(triton.cdiv(elements, block),)](*tensors, elements, *extra, BLOCK=block, num_warps=8)


def build(case, provider, inputs):
    """A function that returns the result, one tensor for all calls; it runs on the current stream, whatever `stream` it is told."""
    y = torch.empty(case.results["y"], dtype=inputs[0].dtype, device="cuda")
    launch = {
        "softmax": lambda: _softmax(provider, inputs, y),
        "linear": lambda: _linear(case, inputs, y),
        "layernorm": lambda: _row_launch(layernorm_row, (*inputs, y), (1e-5,)),
        "rmsnorm": lambda: _row_launch(rmsnorm_row, (*inputs, y), (1e-5,)),
        "bias_gelu": lambda: _flat(bias_gelu_flat, (*inputs, y), case.sizes[-1:]),
        "copy": lambda: _flat(copy_flat, (*inputs, y)),
    }[case.work]()

    def run(stream=None):
        launch()
        return y

    return run
