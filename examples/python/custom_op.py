"""Declares a custom op with a kernel of its own, uses it between built-in ops, and compares with NumPy."""

import numpy

import minic

SCALED_RELU = """
custom @scaled_relu(%x: tensor<MxNxf32>, %s: tensor<Nxf32>) -> (y: tensor<MxNxf32>), kernel = @scaled_relu_rows {
  %r  = relu %x                  : tensor<MxNxf32>
  %sb = broadcast %s, dims = [1] : tensor<MxNxf32>
  %y  = mul %r, %sb              : tensor<MxNxf32>
  return %y
}

kernel @scaled_relu_rows(%x: buffer<MxNxf32>, %s: buffer<Nxf32>, %y: buffer<MxNxf32>) at tile, schedule = #rows<block = [1, 256], warps = [1, 1], lanes = [1, 32], vec = 4> {
  %row, %block = program_id grid = [M, ceildiv(N, 256)] : index, index
  %width = constant 256                : index
  %first = mul %block, %width          : index
  %xt    = load %x, %row, %first       : tile<1x256xf32>
  %st    = load %s, %first, dims = [1] : tile<1x256xf32>
  %r     = relu %xt                    : tile<1x256xf32>
  %yt    = mul %r, %st                 : tile<1x256xf32>
  store %yt, %y, %row, %first
  return
}
"""

GATE = """
graph @gate(%x: tensor<MxKxf32>, %w: tensor<KxNxf32>, %s: tensor<Nxf32>) -> (y: tensor<MxNxf32>) {
  %h = matmul %x, %w               : tensor<MxNxf32>
  %g = custom @scaled_relu(%h, %s) : tensor<MxNxf32>
  %y = softmax %g, axis = 1        : tensor<MxNxf32>
  return %y
}
"""

gate = minic.compile(GATE, customs=[SCALED_RELU]).load("auto")

x, w, s = (numpy.random.randn(*shape).astype("float32") for shape in ((5, 8), (8, 300), (300,)))
e = numpy.maximum(x @ w, 0) * s
e = numpy.exp(e - e.max(1, keepdims=True))
print("agrees with NumPy:", numpy.allclose(gate(x, w, s), e / e.sum(1, keepdims=True), rtol=1e-4, atol=1e-6))
