#include "CheckTensors.h"

#include "minic/Support/ScratchArray.h"
#include "minic/Support/Strides.h"

#include <algorithm>

namespace minic {

namespace {

StridedMemory memoryOf(const TensorView &view, std::span<const int64_t> strides) {
  return {view.memory, dtypeBytes(view.dtype), view.shape, strides};
}

/// The bytes from the lowest to the highest; nullopt where an address does not fit 64 bits.
std::optional<MemoryExtent> extentOf(const TensorView &view) {
  DeviceMemory bytes = DeviceMemory(dtypeBytes(view.dtype));
  if (view.strides.empty()) {
    for (int64_t size : view.shape)
      bytes *= DeviceMemory(size);
    return MemoryExtent{view.memory, view.memory + bytes};
  }
  auto span = elementSpan(view.shape, view.strides);
  int64_t low, high;
  if (!span || __builtin_mul_overflow(span->lowest, int64_t(bytes), &low) ||
      __builtin_mul_overflow(span->end, int64_t(bytes), &high))
    return std::nullopt;
  MemoryExtent extent{view.memory + DeviceMemory(low), view.memory + DeviceMemory(high)};
  bool wraps = (low < 0 && extent.begin > view.memory) || (high > 0 && extent.end < view.memory);
  return wraps ? std::nullopt : std::optional(extent);
}

bool shareMemory(const TensorView &a, const MemoryExtent &of, const TensorView &b, const MemoryExtent &with) {
  if (of.begin >= with.end || with.begin >= of.end)
    return false;
  if (a.strides.empty() && b.strides.empty())
    return true;
  std::vector<int64_t> first = stridesOf(a), second = stridesOf(b);
  return overlap(memoryOf(a, first), memoryOf(b, second));
}

class TensorChecker {
public:
  explicit TensorChecker(Device &device) : device(device) {}

  /// Where the tensor lies, or why it cannot be used.
  Expected<MemoryExtent> check(bool isResult, const TensorSpec &spec, const TensorView &view) const {
    const char *what = isResult ? "result" : "input";
    auto bad = [&](std::string why, std::string fix = {}) {
      return Diagnostic{.code = ErrorCode::BadInput, .message = nameOf(what, spec) + " " + why, .fix = std::move(fix)};
    };
    if (view.device && view.device != &device && view.device->name() != device.name())
      return Diagnostic{.code = ErrorCode::WrongDevice,
                        .message =
                            nameOf(what, spec) + " lies on " + view.device->name() + ", and the executable on " + device.name()};
    auto extent = extentOf(view);
    if (!extent)
      return bad("has strides that reach past the end of memory");
    if (extent->begin == extent->end)
      return *extent;
    if (!view.memory)
      return bad("has no memory (a null address)");
    if (view.memory % DeviceMemory(dtypeBytes(view.dtype)))
      return bad("starts at an address that is no multiple of its element's " + std::to_string(dtypeBytes(view.dtype)) + " bytes");
    if (view.strides.empty())
      return *extent;
    if (isResult && overlapsItself(memoryOf(view, view.strides)))
      return bad("has elements that share memory: strides of " + std::to_string(view.strides.size()) + " axes overlap",
                 "give each element of a result memory of its own");
    auto allocation = device.extentOf(view.memory);
    if (allocation && (extent->begin < allocation->begin || extent->end > allocation->end))
      return bad("reaches outside its memory: its elements lie from byte " +
                 std::to_string(int64_t(extent->begin - allocation->begin)) + " to byte " +
                 std::to_string(int64_t(extent->end - allocation->begin)) + " of an allocation of " +
                 std::to_string(allocation->end - allocation->begin) + " bytes");
    return *extent;
  }

  static std::string nameOf(const char *what, const TensorSpec &spec) { return std::string(what) + " '" + spec.name + "'"; }

private:
  Device &device;
};

} // namespace

Expected<void> checkTensors(Device &device, const std::vector<TensorSpec> &inputSpecs, std::span<const TensorView> inputs,
                            const std::vector<TensorSpec> &resultSpecs, std::span<const TensorView> results) {
  TensorChecker checker(device);
  ScratchArray<MemoryExtent, 32> in(inputs.size()), out(results.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    auto extent = checker.check(false, inputSpecs[i], inputs[i]);
    if (!extent)
      return extent.takeErrors();
    in[i] = *extent;
  }
  for (size_t i = 0; i < results.size(); ++i) {
    auto extent = checker.check(true, resultSpecs[i], results[i]);
    if (!extent)
      return extent.takeErrors();
    out[i] = *extent;
  }
  for (size_t r = 0; r < results.size(); ++r) {
    auto clash = [&](const char *what, const TensorSpec &spec) {
      return Diagnostic{.code = ErrorCode::BadInput,
                        .message = "result '" + resultSpecs[r].name + "' overlaps " + TensorChecker::nameOf(what, spec),
                        .fix = "give each result memory of its own"};
    };
    for (size_t i = 0; i < inputs.size(); ++i)
      if (shareMemory(results[r], out[r], inputs[i], in[i]))
        return clash("input", inputSpecs[i]);
    for (size_t other = 0; other < r; ++other)
      if (shareMemory(results[r], out[r], results[other], out[other]))
        return clash("result", resultSpecs[other]);
  }
  return {};
}

std::optional<Diagnostic> weightFault(const TensorSpec &spec, const HostTensor &weight) {
  bool fits = weight.dtype() == spec.dtype && weight.shape().size() == spec.shape.size();
  std::string expected;
  for (size_t axis = 0; axis < spec.shape.size(); ++axis) {
    fits = fits && (!spec.shape[axis].isConstant() || spec.shape[axis].isConstant(weight.shape()[axis]));
    expected += spec.shape[axis].str() + "x";
  }
  if (fits)
    return std::nullopt;
  return Diagnostic{.code = ErrorCode::BadInput,
                    .message = "weight '" + spec.name + "' has shape " + shapeString(weight.dtype(), weight.shape()) +
                               ", expected " + expected + std::string(dtypeName(spec.dtype))};
}

Diagnostic unknownWeight(const Plan &plan, const std::map<std::string, HostTensor> &weights) {
  std::vector<std::string> known;
  for (const TensorSpec &spec : plan.inputs)
    known.push_back(spec.name);
  for (const auto &[name, tensor] : weights)
    if (std::ranges::find(known, name) == known.end()) {
      std::string near = didYouMean(name, known);
      return {.code = ErrorCode::UnknownInput,
              .message = "'" + plan.name + "' has no input '" + name + "' to bind a weight to",
              .fix = near.empty() ? "" : "did you mean " + near + "?"};
    }
  return {.code = ErrorCode::UnknownInput, .message = "'" + plan.name + "' has inputs of the same name"};
}

} // namespace minic
