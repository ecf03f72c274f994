#include "CheckTensors.h"

#include <algorithm>

namespace minic {

namespace {

constexpr DeviceMemory alignment = 16; // The widest access of a thread, and what TMA asks of addresses.

struct Range {
  DeviceMemory begin, end;
};

Range rangeOf(const TensorView &view) {
  DeviceMemory bytes = DeviceMemory(dtypeBytes(view.dtype));
  for (int64_t size : view.shape)
    bytes *= DeviceMemory(size);
  return {view.memory, view.memory + bytes};
}

bool overlap(const Range &a, const Range &b) { return a.begin < b.end && b.begin < a.end; }

/// Axes of one element have no stride worth looking at, and a tensor without elements none at all.
bool isDense(const TensorView &view) {
  if (view.strides.empty())
    return true;
  if (view.strides.size() != view.shape.size())
    return false;
  if (std::ranges::find(view.shape, 0) != view.shape.end())
    return true;
  int64_t expected = 1;
  for (size_t axis = view.shape.size(); axis-- > 0;) {
    if (view.shape[axis] != 1 && view.strides[axis] != expected)
      return false;
    expected *= view.shape[axis];
  }
  return true;
}

std::string listText(std::span<const int64_t> numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

Diagnostic stridesError(const std::string &who, const TensorView &view) {
  std::vector<int64_t> dense(view.shape.size());
  int64_t stride = 1;
  for (size_t axis = dense.size(); axis-- > 0; stride *= view.shape[axis])
    dense[axis] = stride;
  return {.code = ErrorCode::BadInput,
          .message = who + " has strides " + listText(view.strides) + ", expected " + listText(dense) + " for shape " +
                     shapeString(view.dtype, view.shape),
          .fix = "give a dense row-major copy of it"};
}

std::string hex(DeviceMemory address) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  do
    text.insert(text.begin(), digits[address % 16]);
  while (address /= 16);
  return "0x" + text;
}

class TensorChecker {
public:
  TensorChecker(const Device &device) : device(device) {}

  std::optional<Diagnostic> check(const char *what, const TensorSpec &spec, const TensorView &view) const {
    if (view.device && view.device != &device && view.device->name() != device.name())
      return Diagnostic{.code = ErrorCode::WrongDevice,
                        .message =
                            nameOf(what, spec) + " lies on " + view.device->name() + ", and the executable on " + device.name()};
    if (!isDense(view))
      return stridesError(nameOf(what, spec), view);
    if (!device.isAddressable())
      return std::nullopt;
    Range range = rangeOf(view);
    if (!view.memory && range.end)
      return Diagnostic{.code = ErrorCode::BadInput, .message = nameOf(what, spec) + " has no memory (a null address)"};
    if (view.memory % alignment && range.begin != range.end)
      return Diagnostic{.code = ErrorCode::BadInput,
                        .message = nameOf(what, spec) + " starts at " + hex(view.memory) + ", which is not a multiple of " +
                                   std::to_string(alignment) + " bytes",
                        .fix = "give a copy of it, which an allocator aligns"};
    return std::nullopt;
  }

  static std::string nameOf(const char *what, const TensorSpec &spec) { return std::string(what) + " '" + spec.name + "'"; }

private:
  const Device &device;
};

} // namespace

Expected<void> checkTensors(const Device &device, const std::vector<TensorSpec> &inputSpecs, std::span<const TensorView> inputs,
                            const std::vector<TensorSpec> &resultSpecs, std::span<const TensorView> results) {
  TensorChecker checker(device);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (auto error = checker.check("input", inputSpecs[i], inputs[i]))
      return *error;
  for (size_t i = 0; i < results.size(); ++i)
    if (auto error = checker.check("result", resultSpecs[i], results[i]))
      return *error;
  for (size_t r = 0; r < results.size(); ++r) {
    Range range = device.isAddressable() ? rangeOf(results[r]) : Range{results[r].memory, results[r].memory + 1};
    auto clash = [&](const char *what, const TensorSpec &spec, const TensorView &other) -> std::optional<Diagnostic> {
      Range second = device.isAddressable() ? rangeOf(other) : Range{other.memory, other.memory + 1};
      if (!overlap(range, second))
        return std::nullopt;
      return Diagnostic{.code = ErrorCode::BadInput,
                        .message = "result '" + resultSpecs[r].name + "' overlaps " + TensorChecker::nameOf(what, spec),
                        .fix = "give each result memory of its own"};
    };
    for (size_t i = 0; i < inputs.size(); ++i)
      if (auto error = clash("input", inputSpecs[i], inputs[i]))
        return *error;
    for (size_t other = 0; other < r; ++other)
      if (auto error = clash("result", resultSpecs[other], results[other]))
        return *error;
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
