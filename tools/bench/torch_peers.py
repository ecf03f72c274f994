"""The works through torch: data, references in f64, and torch's own providers."""

import math

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import cases
import graphs

DTYPES = {"f32": torch.float32, "tf32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
EPS = 1e-5


def make_inputs(case):
    """Random tensors in the order of `graphs.inputs_of`. Weights are scaled so that results are of magnitude 1."""
    tensors = []
    for name, sizes in graphs.inputs_of(case).items():
        if name == "mask":
            value = torch.full(sizes, float("-inf"), device="cuda").triu(1)
        else:
            value = torch.randn(sizes, device="cuda", dtype=torch.float32)
        if name == "w":
            value /= math.sqrt(sizes[0])
        tensors.append(value.to(DTYPES[case.dtype]))
    return tensors


def softmax(x):
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)


def linear(x, w, b):
    return torch.relu(x @ w + b)


def layernorm(x, gamma, beta):
    wide = x.float()
    centered = wide - wide.mean(-1, keepdim=True)
    scale = torch.rsqrt((centered * centered).mean(-1, keepdim=True) + EPS)
    return (centered * scale * gamma.float() + beta.float()).to(x.dtype)


def rmsnorm(x, gamma):
    wide = x.float()
    return (wide * torch.rsqrt((wide * wide).mean(-1, keepdim=True) + EPS) * gamma.float()).to(x.dtype)


def bias_gelu(x, b):
    return F.gelu(x + b)


def attention(q, k, v, mask=None):
    scores = (q @ k.transpose(-2, -1)) * k.shape[-1] ** -0.5
    return torch.softmax(scores if mask is None else scores + mask, -1) @ v


def _library_layernorm(x, gamma, beta):
    return F.layer_norm(x, x.shape[-1:], gamma, beta, EPS)


def _library_rmsnorm(x, gamma):
    return F.rms_norm(x, x.shape[-1:], gamma, EPS)


EAGER = {
    "softmax": softmax,
    "linear": linear,
    "layernorm": layernorm,
    "rmsnorm": rmsnorm,
    "bias_gelu": bias_gelu,
    "attention": attention,
}


def reference(case, inputs):
    """The work in f64, in parts where temporaries would be large."""
    if case.work == "attention":
        q, k, v, *mask = inputs
        mask = [tensor.double() for tensor in mask]
        heads = [attention(*(t[i, j].double() for t in (q, k, v)), *mask) for i in range(q.shape[0]) for j in range(q.shape[1])]
        return torch.stack(heads).reshape(q.shape)
    if case.work == "linear":
        return torch.relu(matmul_alone(inputs) + inputs[2].double())
    if case.work == "copy":
        return inputs[0]
    x, *vectors = inputs
    vectors = [vector.double() for vector in vectors]
    rows = max(1, (1 << 26) // x.shape[1])
    return torch.cat([_ROWS_F64[case.work](part.double(), *vectors) for part in x.split(rows)])


def matmul_alone(inputs):
    return inputs[0].double() @ inputs[1].double()


def _layernorm_f64(x, gamma, beta):
    centered = x - x.mean(1, keepdim=True)
    return centered / ((centered * centered).mean(1, keepdim=True) + EPS).sqrt() * gamma + beta


def _gelu_f64(x, b):
    z = x + b
    return 0.5 * z * (1 + torch.erf(z * math.sqrt(0.5)))


_ROWS_F64 = {
    "softmax": softmax,
    "layernorm": _layernorm_f64,
    "rmsnorm": lambda x, gamma: x / ((x * x).mean(1, keepdim=True) + EPS).sqrt() * gamma,
    "bias_gelu": _gelu_f64,
}


def _attention_by(backend):
    def run(q, k, v, mask=None):
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, is_causal=mask is not None)

    return run


LIBRARY = {
    "torch.softmax": lambda x: torch.softmax(x, -1),
    "addmm + relu_": lambda x, w, b: torch.addmm(b, x, w).relu_(),
    "cuBLASLt relu epilogue": lambda x, w, b: torch._addmm_activation(b, x, w, use_gelu=False),
    cases.MATMUL_ALONE: lambda x, w, b: x @ w,
    "F.layer_norm": _library_layernorm,
    "F.rms_norm": _library_rmsnorm,
    "FlashAttention 2": _attention_by(SDPBackend.FLASH_ATTENTION),
    "cuDNN": _attention_by(SDPBackend.CUDNN_ATTENTION),
}


def _compiled(work, mode):
    """torch.compile of what a user would write: the library's norms, the rest written out."""
    function = {"layernorm": _library_layernorm, "rmsnorm": _library_rmsnorm}.get(work, EAGER[work])
    return torch.compile(function, mode=mode, dynamic=False, fullgraph=True)


def prepare(case):
    """Sets what is global in torch for the case, and forgets what was compiled for others."""
    torch.backends.cuda.matmul.allow_tf32 = case.dtype == "tf32"
    torch._dynamo.reset()


def build(case, provider, inputs):
    """A function that returns the result; it runs on the current stream, whatever `stream` it is told."""
    if provider == cases.COPY:
        output = torch.empty_like(inputs[0])
        return lambda stream=None: output.copy_(inputs[0])
    if provider in LIBRARY:
        function = LIBRARY[provider]
    elif provider in cases.COMPILED:
        function = _compiled(case.work, "max-autotune-no-cudagraphs" if provider.endswith("max-autotune") else None)
    else:
        function = EAGER[case.work]
    return lambda stream=None: function(*inputs)
