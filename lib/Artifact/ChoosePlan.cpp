// The plan of an artifact that the arguments of a run fit.
#include "minic/Artifact/PreparedPlan.h"
#include "minic/Support/HostTensor.h"
#include "minic/Support/Strides.h"

#include <algorithm>
#include <charconv>

namespace minic {

namespace {

/// Row-major, and where its first element may be read with its neighbours. An address of 0 is none yet.
bool isDense(const TensorView &view) {
  return isRowMajor(view.shape, view.strides) && view.memory % DeviceMemory(tensorAlignment) == 0;
}

bool takes(const TensorSpec &spec, const TensorView &view) { return spec.strided || isDense(view); }

std::string listText(std::span<const int64_t> numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

std::string hex(DeviceMemory address) {
  char digits[16];
  return "0x" + std::string(digits, std::to_chars(digits, digits + sizeof digits, address, 16).ptr);
}

/// Why a plan does not take a tensor of the right shape.
Diagnostic misfit(const std::string &who, const TensorView &view) {
  if (!isRowMajor(view.shape, view.strides))
    return {.code = ErrorCode::BadInput,
            .message = who + " has strides " + listText(view.strides) + ", expected " + listText(rowMajorStrides(view.shape)) +
                       " for shape " + shapeString(view.dtype, view.shape) + ": it was compiled for row-major tensors alone",
            .fix = "give a row-major copy of it, or compile with --strides=any"};
  return {.code = ErrorCode::BadInput,
          .message = who + " starts at " + hex(view.memory) + ", which is not a multiple of " + std::to_string(tensorAlignment) +
                     " bytes: it was compiled for aligned tensors alone",
          .fix = "give a copy of it, which an allocator aligns, or compile with --strides=any"};
}

/// One list per input, then one per result. A result that the run makes is row-major, whatever the plan takes.
std::vector<std::vector<int64_t>> stridesFor(const Plan &plan, std::span<const TensorView> inputs,
                                             std::span<const TensorView> results, const DimBindings &dims) {
  std::vector<std::vector<int64_t>> strides;
  auto add = [&](const TensorSpec &spec, const TensorView &view) {
    strides.push_back(spec.strided ? stridesOf(view) : std::vector<int64_t>());
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    add(plan.inputs[i], inputs[i]);
  for (size_t i = 0; i < plan.results.size(); ++i) {
    std::vector<int64_t> shape;
    for (const DimExpr &size : plan.results[i].shape)
      shape.push_back(size.evaluate(dims).value_or(0));
    add(plan.results[i], i < results.size() ? results[i] : TensorView{.shape = shape});
  }
  return strides;
}

} // namespace

Expected<PlanChoice> choosePlan(const Artifact &artifact, std::span<const TensorView> inputs, std::span<const TensorView> results,
                                DimBindings given) {
  const Plan &last = artifact.signature();
  for (auto [views, what] : {std::pair(inputs, "input"), std::pair(results, "result")})
    for (size_t i = 0; i < views.size(); ++i)
      if (const TensorView &view = views[i]; !view.strides.empty() && view.strides.size() != view.shape.size())
        return Diagnostic{.code = ErrorCode::BadInput,
                          .message = std::string(what) + " " + std::to_string(i) + " of '" + last.name + "' has " +
                                     std::to_string(view.strides.size()) + " strides for " + std::to_string(view.shape.size()) +
                                     " axes"};
  for (size_t number = 0; number < artifact.plans.size(); ++number) {
    const Plan &plan = artifact.plans[number];
    bool isLast = &plan == &last;
    auto dims = bindDims(plan, inputs, results, given);
    if (!dims && isLast)
      return dims.takeErrors();
    if (!dims)
      continue;
    std::optional<Diagnostic> fault;
    for (size_t i = 0; i < inputs.size() && !fault; ++i)
      if (!takes(plan.inputs[i], inputs[i]))
        fault = misfit("input '" + plan.inputs[i].name + "'", inputs[i]);
    for (size_t i = 0; i < results.size() && !fault; ++i)
      if (!takes(plan.results[i], results[i]))
        fault = misfit("result '" + plan.results[i].name + "'", results[i]);
    if (fault && isLast)
      return *fault;
    if (!fault)
      return PlanChoice{number, *dims, stridesFor(plan, inputs, results, *dims)};
  }
  return Diagnostic{.code = ErrorCode::BadStructure, .message = "an artifact without plans"};
}

bool PreparedPlan::fits(std::span<const TensorView> inputs, std::span<const size_t> positions,
                        std::span<const TensorView> results) const {
  const Plan &plan = this->plan();
  bool takesStrided = false, isStrided = false;
  auto same = [&](const TensorSpec &spec, const TensorView &view, const std::vector<int64_t> &shape, size_t argument) {
    bool dense = isDense(view);
    takesStrided |= spec.strided;
    isStrided |= !dense;
    return view.dtype == spec.dtype && std::ranges::equal(view.shape, shape) &&
           (spec.strided ? stridesOf(view) == chosen.strides[argument] : dense);
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    if (size_t at = positions[i]; !same(plan.inputs[at], inputs[i], inputShapes[at], at))
      return false;
  for (size_t i = 0; i < results.size(); ++i)
    if (!same(plan.results[i], results[i], resultShapes[i], plan.inputs.size() + i))
      return false;
  for (size_t i = results.size(); i < plan.results.size(); ++i)
    if (plan.results[i].strided && !isRowMajor(resultShapes[i], chosen.strides[plan.inputs.size() + i]))
      return false;
  // Where nothing has strides, a plan before this one runs.
  return !takesStrided || isStrided;
}

} // namespace minic
