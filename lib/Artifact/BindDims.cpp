// Values of dim names from the shapes of inputs and results.
#include "minic/Artifact/PreparedPlan.h"
#include "minic/Support/HostTensor.h"

#include <algorithm>
#include <map>

namespace minic {
namespace {

class DimBinder {
public:
  DimBinder(const Plan &plan, std::span<const TensorView> inputs, std::span<const TensorView> results, DimBindings given)
      : plan(plan), numInputs(inputs.size()), numResults(results.size()), dims(std::move(given)) {
    for (size_t i = 0; i < std::min(inputs.size(), plan.inputs.size()); ++i)
      arguments.push_back({plan.inputs[i], inputs[i], "input '" + plan.inputs[i].name + "'"});
    for (size_t i = 0; i < std::min(results.size(), plan.results.size()); ++i)
      arguments.push_back({plan.results[i], results[i], "result '" + plan.results[i].name + "'"});
    for (const auto &[name, value] : dims)
      boundBy[name] = "a fixed value";
  }

  Expected<DimBindings> run() {
    checkGiven();
    if (numInputs != plan.inputs.size())
      return countError("takes", plan.inputs, "inputs", numInputs);
    if (numResults && numResults != plan.results.size())
      return countError("gives", plan.results, "results", numResults);
    for (const Argument &argument : arguments)
      bindNames(argument);
    if (errors.empty())
      for (const Argument &argument : arguments)
        solveProducts(argument);
    if (errors.empty())
      for (const Argument &argument : arguments)
        checkShape(argument);
    if (errors.empty())
      checkAllBound();
    if (errors.empty())
      checkFacts();
    if (!errors.empty())
      return std::move(errors);
    return std::move(dims);
  }

private:
  struct Argument {
    const TensorSpec &spec;
    const TensorView &view;
    std::string who;
  };

  void checkGiven() {
    for (const auto &[name, value] : dims)
      if (value < 0)
        errors.push_back({.code = ErrorCode::BadDim,
                          .message = "dimension '" + name + "' is " + std::to_string(value) + ", expected at least 0"});
  }

  Diagnostic countError(const char *verb, const std::vector<TensorSpec> &specs, const char *what, size_t given) const {
    std::string names;
    for (const TensorSpec &spec : specs)
      names += (names.empty() ? " (" : ", ") + spec.name;
    return {.code = given < specs.size() ? ErrorCode::MissingInput : ErrorCode::BadInput,
            .message = "'" + plan.name + "' " + verb + " " + std::to_string(specs.size()) + " " + what + names +
                       (names.empty() ? "" : ")") + ", given " + std::to_string(given)};
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

  Diagnostic shapeError(const Argument &argument) const {
    return {.code = ErrorCode::BadInput,
            .message = argument.who + " has shape " + shapeString(argument.view.dtype, argument.view.shape) + ", expected " +
                       expectedText(argument.spec)};
  }

  void bind(const std::string &name, int64_t value, const Argument &argument) {
    dims[name] = value;
    boundBy[name] = argument.who;
  }

  /// Axes that are a name alone give it its value.
  void bindNames(const Argument &argument) {
    const auto &[spec, view, who] = argument;
    bool fits = view.dtype == spec.dtype && view.shape.size() == spec.shape.size() &&
                std::ranges::all_of(view.shape, [](int64_t size) { return size >= 0; });
    if (!fits) {
      errors.push_back(shapeError(argument));
      return;
    }
    for (size_t axis = 0; axis < view.shape.size(); ++axis)
      if (std::string name = spec.shape[axis].str(); isDimName(name) && !dims.contains(name))
        bind(name, view.shape[axis], argument);
  }

  /// Axes such as `4*N` give a name its value where no axis is the name alone.
  void solveProducts(const Argument &argument) {
    for (size_t axis = 0; axis < argument.view.shape.size(); ++axis) {
      int64_t size = argument.view.shape[axis];
      DimExpr dim = argument.spec.shape[axis].bind(dims);
      if (dim.getFactors().size() != 1 || !dim.getFactors()[0].isName() || dim.getCoefficient() <= 0)
        continue;
      if (size % dim.getCoefficient() == 0)
        bind(dim.getFactors()[0].name, size / dim.getCoefficient(), argument);
      else
        errors.push_back(shapeError(argument).note("axis " + std::to_string(axis) + " must be a multiple of " +
                                                   std::to_string(dim.getCoefficient())));
    }
  }

  void checkShape(const Argument &argument) {
    std::vector<std::string> names;
    bool mismatch = false;
    for (size_t axis = 0; axis < argument.view.shape.size(); ++axis) {
      const DimExpr &dim = argument.spec.shape[axis];
      std::vector<std::string> here;
      dim.collectNames(here);
      if (std::ranges::any_of(here, [&](const std::string &name) { return !dims.contains(name); }))
        continue; // checkAllBound says so.
      if (dim.evaluate(dims) == argument.view.shape[axis])
        continue;
      mismatch = true;
      dim.collectNames(names);
    }
    if (!mismatch)
      return;
    Diagnostic error = shapeError(argument);
    for (const std::string &name : names)
      error.note(name + " = " + std::to_string(dims.at(name)) + " by " + boundBy.at(name));
    errors.push_back(std::move(error));
  }

  void checkFacts() {
    for (const DimFact &fact : plan.facts) {
      auto value = fact.size.evaluate(dims);
      if (value && fact.holds(*value))
        continue;
      Diagnostic error{.code = ErrorCode::BadDim,
                       .message = "'" + plan.name + "' is for sizes where " + fact.str() + ", and " + fact.size.str() + " is " +
                                  (value ? std::to_string(*value) : "no size")};
      std::vector<std::string> names;
      fact.size.collectNames(names);
      for (const std::string &name : names)
        error.note(name + " = " + std::to_string(dims.at(name)) + " by " + boundBy.at(name));
      errors.push_back(std::move(error));
    }
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
    for (const DimFact &fact : plan.facts)
      fact.size.collectNames(names);
    for (const PlanStep &step : plan.steps)
      collect(step.grid);
    for (const std::string &name : names)
      if (!dims.contains(name))
        errors.push_back({.code = ErrorCode::UnboundDim,
                          .message = "dimension '" + name + "' of '" + plan.name + "' has no value: no input's shape gives one",
                          .fix = "give it with --dim " + name + "=VALUE"});
  }

  const Plan &plan;
  size_t numInputs, numResults; ///< As given.
  std::vector<Argument> arguments;
  DimBindings dims;
  std::map<std::string, std::string> boundBy; ///< Who gave a name its value, for messages.
  Diagnostics errors;
};

} // namespace

Expected<DimBindings> bindDims(const Plan &plan, std::span<const TensorView> inputs, std::span<const TensorView> results,
                               DimBindings given) {
  return DimBinder(plan, inputs, results, std::move(given)).run();
}

} // namespace minic
