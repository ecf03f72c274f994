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

bool takes(const TensorSpec &spec, const TensorView &view, const DimBindings &dims) {
  for (size_t axis = 0; axis < spec.shape.size(); ++axis)
    if (spec.shape[axis].evaluate(dims) != view.shape[axis])
      return false;
  return spec.strided || isDense(view);
}

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

std::vector<int64_t> stridesFor(const TensorSpec &spec, const TensorView &view) {
  if (!spec.strided)
    return {};
  return view.strides.empty() ? rowMajorStrides(view.shape) : std::vector(view.strides.begin(), view.strides.end());
}

bool sameStrides(const std::vector<int64_t> &strides, const TensorSpec &spec, const TensorView &view) {
  if (!spec.strided)
    return isDense(view);
  return view.strides.empty() ? rowMajorStrides(view.shape) == strides : std::ranges::equal(view.strides, strides);
}

} // namespace

Expected<PlanChoice> choosePlan(const Artifact &artifact, std::span<const TensorView> inputs, std::span<const TensorView> results,
                                DimBindings given) {
  const Plan &last = artifact.signature();
  auto dims = bindDims(last, inputs, results, std::move(given));
  if (!dims)
    return dims.takeErrors();
  for (auto [views, what] : {std::pair(inputs, "input"), std::pair(results, "result")})
    for (size_t i = 0; i < views.size(); ++i)
      if (const TensorView &view = views[i]; !view.strides.empty() && view.strides.size() != view.shape.size())
        return Diagnostic{.code = ErrorCode::BadInput,
                          .message = std::string(what) + " '" + (what[0] == 'i' ? last.inputs : last.results)[i].name + "' has " +
                                     std::to_string(view.strides.size()) + " strides for " + std::to_string(view.shape.size()) +
                                     " axes"};
  PlanChoice choice{.dims = std::move(*dims)};
  for (; choice.plan < artifact.plans.size(); ++choice.plan) {
    const Plan &plan = artifact.plans[choice.plan];
    bool fit = true;
    for (size_t i = 0; fit && i < inputs.size(); ++i)
      fit = takes(plan.inputs[i], inputs[i], choice.dims);
    for (size_t i = 0; fit && i < results.size(); ++i)
      fit = takes(plan.results[i], results[i], choice.dims);
    if (!fit)
      continue;
    for (size_t i = 0; i < inputs.size(); ++i)
      choice.strides.push_back(stridesFor(plan.inputs[i], inputs[i]));
    for (size_t i = 0; i < plan.results.size(); ++i)
      choice.strides.push_back(i < results.size() ? stridesFor(plan.results[i], results[i]) : std::vector<int64_t>());
    // A result that the run makes is row-major, whatever the plan takes.
    for (size_t i = results.size(); i < plan.results.size(); ++i)
      if (plan.results[i].strided) {
        std::vector<int64_t> shape;
        for (const DimExpr &size : plan.results[i].shape)
          shape.push_back(size.evaluate(choice.dims).value_or(0));
        choice.strides[inputs.size() + i] = rowMajorStrides(shape);
      }
    return choice;
  }
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!takes(last.inputs[i], inputs[i], choice.dims))
      return misfit("input '" + last.inputs[i].name + "'", inputs[i]);
  for (size_t i = 0; i < results.size(); ++i)
    if (!takes(last.results[i], results[i], choice.dims))
      return misfit("result '" + last.results[i].name + "'", results[i]);
  return Diagnostic{.code = ErrorCode::BadStructure, .message = "no plan of '" + last.name + "' takes what the last one takes"};
}

bool PreparedPlan::fits(std::span<const TensorView> inputs, std::span<const TensorView> results) const {
  const Plan &plan = this->plan();
  bool takesStrided = false, isStrided = false;
  auto same = [&](const TensorSpec &spec, const TensorView &view, const std::vector<int64_t> &shape, size_t argument) {
    takesStrided |= spec.strided;
    isStrided |= !isDense(view);
    return view.dtype == spec.dtype && std::ranges::equal(view.shape, shape) && sameStrides(chosen.strides[argument], spec, view);
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!same(plan.inputs[i], inputs[i], inputShapes[i], i))
      return false;
  for (size_t i = 0; i < results.size(); ++i)
    if (!same(plan.results[i], results[i], resultShapes[i], inputs.size() + i))
      return false;
  for (size_t i = results.size(); i < plan.results.size(); ++i)
    if (plan.results[i].strided && !isRowMajor(resultShapes[i], chosen.strides[inputs.size() + i]))
      return false;
  // Where nothing has strides, a plan before this one runs.
  return !takesStrided || isStrided;
}

} // namespace minic
