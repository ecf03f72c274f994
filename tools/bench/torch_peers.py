"""The works through torch: data, references in f64, and torch's own providers."""

import itertools
import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import cases

DTYPES = {"f32": torch.float32, "tf32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
EPS = 1e-5


def make_inputs(case):
    """Random tensors in the order of the case's inputs. Weights are scaled so that results are of magnitude 1. Sums are of small
    integers: exact in any order, so that an element that is lost shows, however small the sum of so many is."""
    tensors = []
    for name, sizes in case.inputs.items():
        if name == "mask":
            value = torch.full(sizes, float("-inf"), device="cuda").triu(1)
        else:
            value = torch.randn(sizes, device="cuda", dtype=torch.float32)
        if name in ("w", "v") and case.work in cases.PRODUCTS:
            value /= math.sqrt(sizes[0])
        if case.work in cases.SUMS:
            value = value.round()
        tensors.append(value.to(DTYPES[case.dtype]))
    return tensors


def softmax(x, axis=-1):
    e = (x - x.amax(axis, keepdim=True)).exp()
    return e / e.sum(axis, keepdim=True)


def softmax0(x):
    return softmax(x, 0)


def linear(x, w, b):
    return torch.relu(x @ w + b)


def linear_residual(x, w, b, r):
    return torch.relu(torch.addmm(b, x, w) + r)


def linear_softmax(x, w, b):
    return torch.softmax(torch.addmm(b, x, w), -1)


def swiglu(x, w, v):
    return F.silu(x @ w) * (x @ v)


def layernorm(x, gamma, beta):
    wide = x.float()
    centered = wide - wide.mean(-1, keepdim=True)
    scale = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + EPS)
    return (centered * scale * gamma.float() + beta.float()).to(x.dtype)


def rmsnorm(x, gamma):
    wide = x.float()
    return (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + EPS) * gamma.float()).to(x.dtype)


def residual_layernorm(x, r, gamma, beta):
    total = x + r
    return layernorm(total, gamma, beta), total


def bias_gelu(x, b):
    return F.gelu(x + b)


def bias_relu(x, b):
    return torch.relu(x + b)


def transpose(x):
    return x.t().contiguous()


def sum0(x):
    return x.sum(0)


def sum_all(x):
    return x.sum()


def attention(q, k, v, mask=None):
    scores = (q @ k.transpose(-2, -1)) * k.shape[-1] ** -0.5
    return torch.softmax(scores if mask is None else scores + mask, -1) @ v


def _library_layernorm(x, gamma, beta):
    return F.layer_norm(x, x.shape[-1:], gamma, beta, EPS)


def _library_residual_layernorm(x, r, gamma, beta):
    total = x + r
    return F.layer_norm(total, total.shape[-1:], gamma, beta, EPS), total


def _library_rmsnorm(x, gamma):
    return F.rms_norm(x, x.shape[-1:], gamma, EPS)


EAGER = {
    "softmax": softmax,
    "softmax0": softmax0,
    "linear": linear,
    "linear_residual": linear_residual,
    "linear_softmax": linear_softmax,
    "swiglu": swiglu,
    "layernorm": layernorm,
    "residual_layernorm": residual_layernorm,
    "rmsnorm": rmsnorm,
    "bias_gelu": bias_gelu,
    "bias_relu": bias_relu,
    "transpose": transpose,
    "sum0": sum0,
    "sum_all": sum_all,
    "attention": attention,
}


def results_of(value):
    """What a function of a work returned, as a tuple."""
    return value if isinstance(value, tuple) else (value,)


def reference(case, inputs):
    """The results in f64, in parts where temporaries would be large."""
    if case.work == "attention":
        q, k, v, *mask = inputs
        mask = [tensor.double() for tensor in mask]
        heads = [attention(*(t[i, j].double() for t in (q, k, v)), *mask) for i in range(q.shape[0]) for j in range(q.shape[1])]
        return (torch.stack(heads).reshape(q.shape),)
    if case.work in cases.PRODUCTS:
        return (EAGER[case.work](*(value.double() for value in inputs)),)
    if case.work == "copy":
        return (inputs[0],)
    if case.work == "transpose":
        return (inputs[0].t(),)
    if case.work in ("softmax0", "sum0", "sum_all"):
        return (EAGER[case.work](inputs[0].double()),)
    rows = max(1, (1 << 26) // case.sizes[1])
    # Tensors of the whole size are cut into rows, vectors are the same for all of them.
    cut = [value.split(rows) if value.dim() == 2 else itertools.repeat(value) for value in inputs]
    parts = [results_of(_ROWS_F64[case.work](*(value.double() for value in part))) for part in zip(*cut)]
    return tuple(map(torch.cat, zip(*parts)))


def matmul_alone(inputs):
    return inputs[0].double() @ inputs[1].double()


def _layernorm_f64(x, gamma, beta):
    centered = x - x.mean(1, keepdim=True)
    return centered / ((centered * centered).mean(1, keepdim=True) + EPS).sqrt() * gamma + beta


def _residual_layernorm_f64(x, r, gamma, beta):
    return _layernorm_f64(x + r, gamma, beta), x + r


def _gelu_f64(x, b):
    z = x + b
    return 0.5 * z * (1 + torch.erf(z * math.sqrt(0.5)))


_ROWS_F64 = {
    "softmax": softmax,
    "layernorm": _layernorm_f64,
    "residual_layernorm": _residual_layernorm_f64,
    "rmsnorm": lambda x, gamma: x / ((x * x).mean(1, keepdim=True) + EPS).sqrt() * gamma,
    "bias_gelu": _gelu_f64,
    "bias_relu": bias_relu,
}


def _attention_by(backend):
    def run(q, k, v, mask=None):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=mask is not None)

    return run


LIBRARY = {
    ("softmax", "torch.softmax"): lambda x: torch.softmax(x, -1),
    ("softmax0", "torch.softmax"): lambda x: torch.softmax(x, 0),
    ("linear", "addmm + relu_"): lambda x, w, b: torch.addmm(b, x, w).relu_(),
    ("linear", "cuBLASLt relu epilogue"): lambda x, w, b: torch._addmm_activation(b, x, w, use_gelu=False),
    ("linear", cases.MATMUL_ALONE): lambda x, w, b: x @ w,
    ("layernorm", "F.layer_norm"): _library_layernorm,
    ("residual_layernorm", "F.layer_norm"): _library_residual_layernorm,
    ("rmsnorm", "F.rms_norm"): _library_rmsnorm,
    ("attention", "FlashAttention 2"): _attention_by(SDPBackend.FLASH_ATTENTION),
    ("attention", "cuDNN"): _attention_by(SDPBackend.CUDNN_ATTENTION),
}


def _compiled(work, mode):
    """torch.compile of what a user would write: the library's norms, the rest written out."""
    norms = {
        "layernorm": _library_layernorm,
        "residual_layernorm": _library_residual_layernorm,
        "rmsnorm": _library_rmsnorm,
    }
    function = norms.get(work, EAGER[work])
    return torch.compile(function, mode=mode, dynamic=False, fullgraph=True)


def prepare(case):
    """Sets what is global in torch for the case, and forgets what was compiled for others."""
    torch.backends.cuda.matmul.allow_tf32 = case.dtype == "tf32"
    torch._dynamo.reset()


def copied(case, inputs):
    """What the copy moves: the inputs of the whole size, as one tensor. Results of the same size are as many."""
    whole = [value for value in inputs if value.shape == case.sizes]
    return whole[0] if len(whole) == 1 else torch.stack(whole)


def build(case, provider, inputs):
    """A function that returns the result, or a tuple of them; it runs on the current stream, whatever `stream` it is told."""
    if provider == cases.COPY:
        source = copied(case, inputs)
        output = torch.empty_like(source)
        return lambda stream=None: output.copy_(source)
    if (case.work, provider) in LIBRARY:
        function = LIBRARY[case.work, provider]
    elif provider in cases.COMPILED:
        function = _compiled(case.work, "max-autotune-no-cudagraphs" if provider.endswith("max-autotune") else None)
    else:
        function = EAGER[case.work]
    return lambda stream=None: function(*inputs)
