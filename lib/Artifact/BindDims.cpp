// Values of dim names from the shapes of inputs.
#include "minic/Artifact/RunPlan.h"

#include <algorithm>

namespace minic {
namespace {

class DimBinder {
public:
  DimBinder(const Plan &plan, std::span<const HostTensor> inputs, DimBindings given)
      : plan(plan), inputs(inputs), dims(std::move(given)) {
    for (const auto &[name, value] : dims)
      boundBy[name] = "a fixed value";
  }

  Expected<DimBindings> run() {
    checkGiven();
    if (inputs.size() != plan.inputs.size())
      return countError();
    for (size_t i = 0; i < inputs.size(); ++i)
      bindNames(i);
    if (errors.empty())
      for (size_t i = 0; i < inputs.size(); ++i)
        solveProducts(i);
    if (errors.empty())
      for (size_t i = 0; i < inputs.size(); ++i)
        checkShape(i);
    if (errors.empty())
      checkAllBound();
    if (!errors.empty())
      return std::move(errors);
    return std::move(dims);
  }

private:
  void checkGiven() {
    for (const auto &[name, value] : dims)
      if (value < 0)
        errors.push_back({.code = ErrorCode::BadDim,
                          .message = "dimension '" + name + "' is " + std::to_string(value) + ", expected at least 0"});
  }

  Diagnostic countError() const {
    std::string names;
    for (const TensorSpec &spec : plan.inputs)
      names += (names.empty() ? " (" : ", ") + spec.name;
    return {.code = inputs.size() < plan.inputs.size() ? ErrorCode::MissingInput : ErrorCode::BadInput,
            .message = "'" + plan.name + "' takes " + std::to_string(plan.inputs.size()) + " inputs" + names +
                       (names.empty() ? "" : ")") + ", given " + std::to_string(inputs.size())};
  }

  /// The parameter's shape with what is known of its names filled in.
  std::string expectedText(const TensorSpec &spec) const {
    std::string text;
    for (const DimExpr &dim : spec.shape) {
      auto value = dim.evaluate(dims);
      text += (value ? std::to_string(*value) : dim.str()) + "x";
    }
    return text + std::string(dtypeName(spec.dtype));
  }

  Diagnostic shapeError(size_t i) const {
    const TensorSpec &spec = plan.inputs[i];
    return {.code = ErrorCode::BadInput,
            .message = "input '" + spec.name + "' has shape " + shapeString(inputs[i].dtype(), inputs[i].shape()) + ", expected " +
                       expectedText(spec)};
  }

  void bind(const std::string &name, int64_t value, size_t input) {
    dims[name] = value;
    boundBy[name] = "input '" + plan.inputs[input].name + "'";
  }

  /// Axes that are a name alone give it its value.
  void bindNames(size_t i) {
    const TensorSpec &spec = plan.inputs[i];
    const std::vector<int64_t> &shape = inputs[i].shape();
    if (inputs[i].dtype() != spec.dtype || shape.size() != spec.shape.size()) {
      errors.push_back(shapeError(i));
      return;
    }
    for (size_t axis = 0; axis < shape.size(); ++axis)
      if (std::string name = spec.shape[axis].str(); isDimName(name) && !dims.contains(name))
        bind(name, shape[axis], i);
  }

  /// Axes such as `4*N` give a name its value where no axis is the name alone.
  void solveProducts(size_t i) {
    for (size_t axis = 0; axis < inputs[i].shape().size(); ++axis) {
      DimExpr dim = plan.inputs[i].shape[axis].bind(dims);
      if (dim.getFactors().size() != 1 || dim.getFactors()[0].ceilDivOf || dim.getCoefficient() <= 0)
        continue;
      if (inputs[i].shape()[axis] % dim.getCoefficient() == 0)
        bind(dim.getFactors()[0].name, inputs[i].shape()[axis] / dim.getCoefficient(), i);
      else
        errors.push_back(
            shapeError(i).note("axis " + std::to_string(axis) + " must be a multiple of " + std::to_string(dim.getCoefficient())));
    }
  }

  void checkShape(size_t i) {
    std::vector<std::string> names;
    bool mismatch = false;
    for (size_t axis = 0; axis < inputs[i].shape().size(); ++axis) {
      const DimExpr &dim = plan.inputs[i].shape[axis];
      std::vector<std::string> here;
      dim.collectNames(here);
      if (std::ranges::any_of(here, [&](const std::string &name) { return !dims.contains(name); }))
        continue; // checkAllBound says so.
      if (dim.evaluate(dims) == inputs[i].shape()[axis])
        continue;
      mismatch = true;
      dim.collectNames(names);
    }
    if (!mismatch)
      return;
    Diagnostic error = shapeError(i);
    for (const std::string &name : names)
      error.note(name + " = " + std::to_string(dims.at(name)) + " by " + boundBy.at(name));
    errors.push_back(std::move(error));
  }

  void checkAllBound() {
    std::vector<std::string> names;
    auto collect = [&](const std::vector<DimExpr> &shape) {
      for (const DimExpr &dim : shape)
        dim.collectNames(names);
    };
    for (const TensorSpec &spec : plan.inputs)
      collect(spec.shape);
    for (const TensorSpec &spec : plan.results)
      collect(spec.shape);
    for (const PlanBuffer &buffer : plan.buffers)
      collect(buffer.spec.shape);
    for (const PlanStep &step : plan.steps)
      collect(step.grid);
    for (const std::string &name : names)
      if (!dims.contains(name))
        errors.push_back({.code = ErrorCode::UnboundDim,
                          .message = "dimension '" + name + "' of '" + plan.name + "' has no value: no input's shape gives one",
                          .fix = "give it with --dim " + name + "=VALUE"});
  }

  const Plan &plan;
  std::span<const HostTensor> inputs;
  DimBindings dims;
  std::map<std::string, std::string> boundBy; ///< Who gave a name its value, for messages.
  Diagnostics errors;
};

} // namespace

Expected<DimBindings> bindDims(const Plan &plan, std::span<const HostTensor> inputs, DimBindings given) {
  return DimBinder(plan, inputs, std::move(given)).run();
}

} // namespace minic
