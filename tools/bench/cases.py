"""What is compared: works, shapes, element types, and who takes part. Needs nothing but Python."""

import dataclasses
import math

# tf32 is f32 in memory, with the tensor cores' 10-bit mantissas in products.
BYTES = {"f32": 4, "tf32": 4, "f16": 2, "bf16": 2}

# The largest error allowed, over the largest magnitude of the reference. 16-bit results may be rounded after each of several ops.
BOUNDS = {"f32": 1e-5, "tf32": 2e-3, "f16": 4e-3, "bf16": 3e-2}

# Rows that are limits, not peers: they do less than the work. Ratios leave them out.
COPY = "copy (torch copy_)"
MATMUL_ALONE = "cuBLAS matmul alone"
REFERENCES = (COPY, MATMUL_ALONE)

FUSED, EAGER = "minic fused", "minic eager"
MINIC = (FUSED, EAGER)
COMPILED = ("torch.compile", "torch.compile max-autotune")


@dataclasses.dataclass(frozen=True)
class Case:
    """Sizes: rows and columns; linear: N, K, M of [N,K] x [K,M]; attention: batch, heads, positions, depth; copy: elements."""

    work: str
    sizes: tuple
    dtype: str
    small: bool = False  # judged inside a replayed graph, since launching takes as long as the work
    causal: bool = False

    @property
    def shape(self):
        if self.work == "attention":
            text = " ".join(letter + str(size) for letter, size in zip("bhsd", self.sizes))
            return text + (" causal" if self.causal else "")
        return "x".join(map(str, self.sizes))

    @property
    def required_bytes(self):
        """Every input read once, every result written once."""
        size = BYTES[self.dtype]
        if self.work == "linear":
            n, k, m = self.sizes
            return size * (n * k + k * m + m + n * m)
        if self.work == "attention":
            return size * 4 * math.prod(self.sizes)
        vectors = {"layernorm": 2, "rmsnorm": 1, "bias_gelu": 1}.get(self.work, 0)
        return size * (2 * math.prod(self.sizes) + vectors * self.sizes[-1])

    @property
    def flops(self):
        """Of the matrix products; None where the work is bound by memory."""
        if self.work == "linear":
            return 2 * math.prod(self.sizes)
        if self.work == "attention":
            b, h, s, d = self.sizes
            return 4 * b * h * s * s * d // (2 if self.causal else 1)
        return None


def _softmax():
    for sizes in ((4096, 1024), (1823, 781), (128, 1024), (4096, 256), (4096, 781)):
        yield Case("softmax", sizes, "f32", small=True)
    for sizes in ((65536, 1024), (32768, 4096), (8192, 32768), (1024, 262144), (1048576, 64)):
        yield Case("softmax", sizes, "f32")
    for sizes in ((65536, 1024), (8192, 32768)):
        yield Case("softmax", sizes, "bf16")


def _linear():
    for sizes in ((8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (8192, 4096, 16384)):
        yield Case("linear", sizes, "bf16")
    for sizes in ((16, 8192, 8192), (1000, 777, 1111)):
        yield Case("linear", sizes, "bf16", small=True)
    yield Case("linear", (8192, 8192, 8192), "f16")
    yield Case("linear", (8192, 8192, 8192), "tf32")
    yield Case("linear", (4096, 4096, 4096), "f32")
    for sizes in ((100, 10, 100), (33, 16, 65)):
        yield Case("linear", sizes, "f32", small=True)


def _rows(work):
    for sizes, dtype in (((65536, 1024), "bf16"), ((16384, 8192), "bf16"), ((16384, 8192), "f32")):
        yield Case(work, sizes, dtype)


def _attention():
    yield Case("attention", (4, 16, 4096, 128), "bf16")
    yield Case("attention", (4, 16, 4096, 128), "bf16", causal=True)
    for sizes in ((1, 16, 16384, 128), (4, 32, 4096, 64), (16, 16, 1024, 64)):
        yield Case("attention", sizes, "bf16")


def _copy():
    for elements in (1 << 22, 1 << 26, 1 << 30):
        yield Case("copy", (elements,), "f32", small=elements < 1 << 25)


CASES = {
    "softmax": tuple(_softmax()),
    "linear": tuple(_linear()),
    "layernorm": tuple(_rows("layernorm")),
    "rmsnorm": tuple(_rows("rmsnorm")),
    "bias_gelu": tuple(_rows("bias_gelu")),
    "attention": tuple(_attention()),
    "copy": tuple(_copy()),
}

# In the order of the tables.
PROVIDERS = {
    "softmax": (*MINIC, "torch eager", "torch.softmax", *COMPILED, "Triton row/program", "Triton persistent", "JAX", COPY),
    "linear": (*MINIC, "torch eager", "addmm + relu_", "cuBLASLt relu epilogue", MATMUL_ALONE, *COMPILED, "Triton", "JAX"),
    "layernorm": (*MINIC, "torch eager", "F.layer_norm", *COMPILED, "Triton", "JAX", COPY),
    "rmsnorm": (*MINIC, "torch eager", "F.rms_norm", *COMPILED, "Triton", "JAX", COPY),
    "bias_gelu": (*MINIC, "torch eager", *COMPILED, "Triton", "JAX", COPY),
    "attention": (*MINIC, "torch eager", "FlashAttention 2", "cuDNN", *COMPILED, "JAX", "JAX cuDNN"),
    "copy": (FUSED, "Triton", "JAX", COPY),
}

# What a table's reader should know of a provider, by (work, provider).
NOTES = {
    ("softmax", "torch eager"): "written out: amax, sub, exp, sum, div",
    ("linear", "torch eager"): "relu(x @ w + b), three kernels",
    ("linear", "cuBLASLt relu epilogue"): "torch._addmm_activation",
    ("layernorm", "torch eager"): "written out in f32",
    ("rmsnorm", "torch eager"): "written out in f32",
    ("bias_gelu", "torch eager"): "F.gelu(x + b)",
    ("attention", "torch eager"): "written out: matmul, softmax, matmul",
    ("attention", "JAX"): "jit of the written-out form",
    ("attention", "JAX cuDNN"): "jax.nn.dot_product_attention",
}


def providers_of(work, chosen=None):
    return [name for name in PROVIDERS[work] if not chosen or name in chosen]


def note_of(work, provider):
    return NOTES.get((work, provider), "")


def selected(works, quick=False):
    """Cases of the named works (None: all); `quick` keeps the first and the last of each."""
    unknown = set(works or ()) - set(CASES)
    if unknown:
        raise ValueError(f"unknown work {', '.join(sorted(unknown))}; there are {', '.join(CASES)}")
    for work in works or CASES:
        cases = CASES[work]
        yield from (cases[0], cases[-1]) if quick else cases
