#include "minic/CApiRuntime/Tensors.h"

#include "minic/Support/Strides.h"

#include <algorithm>
#include <cstring>

namespace minic {

std::string tensorName(const char *what, size_t index, const std::vector<TensorSpec> &specs) {
  return std::string(what) + (index < specs.size() ? " '" + specs[index].name + "'" : " " + std::to_string(index));
}

static_assert(MINIC_F64 == int(DType::F64) + 1 && MINIC_F32 == int(DType::F32) + 1 && MINIC_F16 == int(DType::F16) + 1 &&
              MINIC_BF16 == int(DType::BF16) + 1 && MINIC_I64 == int(DType::I64) + 1 && MINIC_I32 == int(DType::I32) + 1 &&
              MINIC_I1 == int(DType::I1) + 1 && MINIC_I8 == int(DType::I8) + 1 && MINIC_U8 == int(DType::U8) + 1 &&
              MINIC_F8E4M3 == int(DType::F8E4M3) + 1 && MINIC_F8E5M2 == int(DType::F8E5M2) + 1);

MinicDType toCType(DType dtype) { return MinicDType(int(dtype) + 1); }

std::optional<DType> fromCType(int32_t dtype) {
  if (dtype < MINIC_F64 || dtype > MINIC_F8E5M2 || DType(dtype - 1) == DType::Index)
    return std::nullopt;
  return DType(dtype - 1);
}

/// What is wrong with a rank and shape, or null.
static const char *shapeFault(int32_t rank, const int64_t *shape) {
  if (rank < 0 || rank > MINIC_MAX_RANK)
    return "has a rank that is not in 0 to 64";
  return rank && !shape ? "has no shape" : nullptr;
}

Expected<std::vector<int64_t>> checkedShape(const std::string &argument, int32_t rank, const int64_t *shape) {
  if (const char *fault = shapeFault(rank, shape))
    return badArgument(argument, fault);
  return std::vector<int64_t>(shape, shape + rank);
}

static std::string placeName(int kind, int ordinal) {
  return kind == MINIC_DEVICE_CPU    ? "cpu"
         : kind == MINIC_DEVICE_CUDA ? "cuda:" + std::to_string(ordinal)
                                     : "a device of kind " + std::to_string(kind);
}

/// Puts one tensor into `view`; says what is wrong with it.
static std::string viewFault(const MinicTensor &tensor, const ExecutableObject *on, TensorView &view) {
  auto dtype = fromCType(tensor.dtype);
  if (!dtype)
    return "has dtype " + std::to_string(tensor.dtype) + ", expected a MinicDType";
  if (const char *fault = shapeFault(tensor.rank, tensor.shape))
    return fault;
  size_t rank = size_t(tensor.rank);
  view = {.memory = tensor.memory, .dtype = *dtype, .shape = {tensor.shape, rank}};
  // Strides that say what none would say are left out: most calls have them.
  if (tensor.strides && !isRowMajor(view.shape, {tensor.strides, rank}))
    view.strides = {tensor.strides, rank};
  if (on)
    view.device = on->executable->device().get();
  return {};
}

/// A tensor that says where it lies has to lie where it is used.
static std::optional<Diagnostic> placeFault(const MinicTensor &tensor, const ExecutableObject *on, const std::string &who) {
  int kind = on ? on->deviceKind : MINIC_DEVICE_CPU, ordinal = on ? on->ordinal : 0;
  if (tensor.device_kind == MINIC_DEVICE_UNSTATED || (tensor.device_kind == kind && tensor.device_ordinal == ordinal))
    return std::nullopt;
  return Diagnostic{.code = ErrorCode::WrongDevice,
                    .message = who + " lies on " + placeName(tensor.device_kind, tensor.device_ordinal) +
                               (on ? ", and the executable on " + placeName(kind, ordinal) : ", expected host memory")};
}

Expected<void> TensorViews::fill(const MinicTensor *tensors, const char *what, const std::vector<TensorSpec> &specs,
                                 const ExecutableObject *device) {
  if (size && !tensors)
    return badArgument(std::string(what) + "s", "is NULL, expected " + std::to_string(size) + " tensors");
  for (size_t i = 0; i < size; ++i) {
    if (std::string fault = viewFault(tensors[i], device, array[i]); !fault.empty())
      return Diagnostic{.code = ErrorCode::BadInput, .message = tensorName(what, i, specs) + " " + fault};
    if (auto fault = placeFault(tensors[i], device, tensorName(what, i, specs)))
      return *fault;
  }
  return {};
}

Expected<std::span<std::byte>> hostBytes(const TensorView &tensor, const std::string &who) {
  int64_t width = dtypeBytes(tensor.dtype), bytes = 0, before = 0;
  bool fits = HostTensor::checkedBytes(tensor.dtype, tensor.shape).has_value();
  auto span = fits ? elementSpan(tensor.shape, stridesOf(tensor)) : std::nullopt;
  if (!span || __builtin_mul_overflow(span->size(), width, &bytes) || __builtin_mul_overflow(span->lowest, width, &before))
    return Diagnostic{.code = ErrorCode::TooLarge, .message = who + " is too large, or has a negative size"};
  if (bytes && !tensor.memory)
    return Diagnostic{.code = ErrorCode::BadInput, .message = who + " has no memory (a null address)"};
  return std::span(reinterpret_cast<std::byte *>(tensor.memory + uint64_t(before)), size_t(bytes));
}

void copyElements(const TensorView &tensor, std::span<const std::byte> from, std::span<std::byte> to) {
  std::vector<int64_t> strides = stridesOf(tensor);
  int64_t first = -elementSpan(tensor.shape, strides)->lowest;
  size_t width = size_t(dtypeBytes(tensor.dtype));
  forEachOffset(tensor.shape, strides, [&](int64_t offset) {
    size_t at = size_t(first + offset) * width;
    std::memcpy(to.data() + at, from.data() + at, width);
  });
}

} // namespace minic
