// Tensors that come through the C interface, checked.
#pragma once

#include "minic/CApiRuntime/Handles.h"
#include "minic/Support/ScratchArray.h"

namespace minic {

/// "input 'w'", for messages; by number where there is no such input.
std::string tensorName(const char *what, size_t index, const std::vector<TensorSpec> &specs);

/// Tensors as the runtime takes them. `device`: what they must lie on if they say where they lie; null for host memory. The views
/// point into `tensors`, and have no strides where those are row-major.
class TensorViews {
public:
  explicit TensorViews(size_t size) : array(size), size(size) {}
  /// `what`: "input" or "result".
  Expected<void> fill(const MinicTensor *tensors, const char *what, const std::vector<TensorSpec> &specs,
                      const ExecutableObject *device);
  std::span<const TensorView> views() { return {array.data(), size}; }

private:
  ScratchArray<TensorView, 16> array;
  size_t size;
};

/// A dtype word of C, or nullopt.
std::optional<DType> fromCType(int32_t dtype);
/// "argument 'shape' ..." if this is no shape.
Expected<std::vector<int64_t>> checkedShape(const std::string &argument, int32_t rank, const int64_t *shape);
/// The bytes of a tensor in host memory, from its lowest element to its highest; `who` is for messages.
Expected<std::span<std::byte>> hostBytes(const TensorView &tensor, const std::string &who);
/// Copies the elements, and nothing between them, where `from` and `to` are bytes as `hostBytes` has them.
void copyElements(const TensorView &tensor, std::span<const std::byte> from, std::span<std::byte> to);

} // namespace minic
