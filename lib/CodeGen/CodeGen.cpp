#include "minic/CodeGen/CodeGen.h"

#include "Backend.h"
#include "Lowering.h"
#include "Override.h"
#include "minic/IR/CustomOp.h"
#include "minic/IR/PtxText.h"
#include "minic/IR/SharedLayout.h"
#include "minic/Support/BuildId.h"

#include <llvm/Config/llvm-config.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <thread>

namespace minic {

using namespace codegen;

/// Functions that return scalars are bodies of math functions.
static bool isKernel(const Function &function) { return function.kind == FunctionKind::Kernel && function.resultTypes.empty(); }

static std::vector<Function *> machineKernels(Module &module) {
  std::vector<Function *> kernels;
  for (Function *function : module.functions())
    if (isKernel(*function) && function->level == Level::Machine)
      kernels.push_back(function);
  return kernels;
}

/// Those that are no PTX yet.
static std::vector<Function *> writtenInIr(std::vector<Function *> kernels) {
  std::erase_if(kernels, [](const Function *kernel) { return ptxOf(*kernel) != nullptr; });
  return kernels;
}

static KernelCode describe(Function &kernel) {
  SharedBytes shared = sharedBytesOf(kernel);
  KernelCode code{.name = kernel.name,
                  .threads = threadsOf(kernel),
                  .sharedBytes = shared.declared,
                  .dynamicSharedBytes = shared.dynamic,
                  .clusterCtas = clusterCtas(kernel)};
  if (const Operation *ptx = ptxOf(kernel)) {
    code.entry = ptx->attr("entry")->asString()->text;
    code.dims = ptx->dimsAttr("sizes");
    code.dynamicSharedBytes = ptx->attr("shared") ? ptx->intAttr("shared") : 0;
  } else {
    for (const std::string &name : kernel.dimNames())
      code.dims.push_back(DimExpr::name(name));
  }
  for (Operation &op : kernel.body())
    code.waitsForLaunches |= op.is(OpKind::LaunchWait);
  for (Value *param : kernel.params()) {
    Type type = param->type();
    KernelParam &spec = code.params.emplace_back(KernelParam{.name = param->name()});
    if (type.isTensorMap())
      spec.map = TensorMapSpec{type.dtype(), type.shape(), type.box(), type.swizzle(), type.roundsToTf32()};
    else if (type.isStrided())
      spec.stridedAxes = type.rank();
  }
  return code;
}

/// What the target cannot run, whatever the code is.
static void checkKernel(Function &kernel, const KernelCode &code, const TargetInfo &target, Diagnostics &errors) {
  auto limit = [&](std::string what, int64_t needed, int64_t available) {
    if (needed > available)
      errors.push_back({.code = ErrorCode::ResourceLimit,
                        .message = "kernel @" + kernel.name + " needs " + std::to_string(needed) + " " + what + ", and " +
                                   std::string(target.name) + " has " + std::to_string(available),
                        .loc = kernel.loc});
  };
  limit("bytes of shared memory per CTA", code.sharedBytes, target.sharedBytesPerCta);
  // The dynamic part starts at its alignment.
  int64_t declared = (code.sharedBytes + swizzleAlignment - 1) / swizzleAlignment * swizzleAlignment;
  if (code.dynamicSharedBytes)
    limit("bytes of shared memory per CTA", declared + code.dynamicSharedBytes, target.maxSharedBytesPerCta);
  int64_t parameterBytes = 4 * int64_t(code.dims.size());
  for (const KernelParam &param : code.params)
    parameterBytes += param.map ? tensorMapBytes : 8 + 8 * param.stridedAxes;
  limit("bytes of parameters", parameterBytes, target.maxParameterBytes);
  limit("threads per CTA", code.threads, target.maxThreadsPerCta);
  if (kernel.name == "WARP_SZ" || kernel.name == "_") // PTX ISA, "Identifiers".
    errors.push_back({.code = ErrorCode::BackendFailed, .message = "PTX takes no kernel named @" + kernel.name, .loc = kernel.loc});
  walk(kernel.body(), [&](Operation &op) {
    if (std::string_view needs = op.info().needs; !needs.empty() && needs != target.name)
      errors.push_back({.code = ErrorCode::ResourceLimit,
                        .message = "kernel @" + kernel.name + ": '" + std::string(op.info().name) + "' is an instruction of " +
                                   std::string(needs) + ", not of " + std::string(target.name),
                        .loc = op.loc(),
                        .fix = "compile with --target=" + std::string(needs)});
  });
}

/// An override of what is no kernel.
static std::optional<Diagnostic> unknownOverride(const std::vector<Function *> &kernels,
                                                 std::span<const KernelOverride> overrides) {
  std::vector<std::string> names;
  std::string list;
  for (const Function *kernel : kernels) {
    names.push_back(kernel->name);
    list += (list.empty() ? "@" : ", @") + kernel->name;
  }
  for (const KernelOverride &override : overrides)
    if (std::ranges::find(names, override.kernel) == names.end()) {
      std::string near = didYouMean(override.kernel, names);
      return Diagnostic{.code = ErrorCode::UnknownFunction,
                        .message = "--override: there is no kernel @" + override.kernel,
                        .fix = !near.empty() ? "did you mean @" + near + "?" : "the kernels are " + list};
    }
  return std::nullopt;
}

/// The code of a kernel that is PTX: as it was given.
static Expected<std::string> givenPtx(Function &kernel, const TargetInfo &target) {
  Diagnostics errors;
  checkKernel(kernel, describe(kernel), target, errors);
  const std::string &text = ptxOf(kernel)->attr("text")->asString()->text;
  if (!runsPtxFor(ptxTarget(text), target))
    errors.push_back({.code = ErrorCode::ResourceLimit,
                      .message = "the PTX of kernel @" + kernel.name + " is for " + ptxTarget(text) + ", and the target is " +
                                 std::string(target.name),
                      .loc = ptxOf(kernel)->loc(),
                      .fix = "compile for a target that runs it, or write PTX for one"});
  if (!errors.empty())
    return errors;
  return text;
}

/// LLVM code for some kernels of one module.
static Expected<std::unique_ptr<llvm::Module>> lower(const LineSource *from, std::span<Function *const> kernels,
                                                     const TargetInfo &target, const Backend &backend, llvm::LLVMContext &context) {
  auto module = std::make_unique<llvm::Module>("minic", context);
  backend.prepare(*module);
  Diagnostics errors;
  for (Function *kernel : kernels)
    checkKernel(*kernel, describe(*kernel), target, errors);
  if (!errors.empty())
    return errors;
  // All declarations first: kernels keep their names, and a shared array that has one of them gets another.
  std::vector<llvm::Function *> functions;
  for (Function *kernel : kernels)
    functions.push_back(declareKernel(*kernel, *module));
  LineInfo lines(from, *module);
  for (size_t i = 0; i < kernels.size(); ++i) {
    lines.describe(*kernels[i], *functions[i]);
    KernelLowering(*kernels[i], *functions[i], target, lines, errors).run();
  }
  lines.finish();
  if (!errors.empty())
    return errors;
  if (auto valid = backend.verify(*module); !valid)
    return valid.takeErrors();
  return module;
}

Expected<std::string> emitLLVM(Module &module, const TargetInfo &target, bool optimize, const LineSource *lines) {
  auto backend = Backend::create(target);
  if (!backend)
    return backend.takeErrors();
  llvm::LLVMContext context;
  auto code = lower(lines, writtenInIr(machineKernels(module)), target, **backend, context);
  if (!code)
    return code.takeErrors();
  if (optimize)
    if (auto done = (*backend)->optimize(**code); !done)
      return done.takeErrors();
  std::string text;
  llvm::raw_string_ostream stream(text);
  (*code)->print(stream, nullptr);
  return text;
}

namespace {

/// Some kernels of one module as LLVM code, and what makes PTX of it: nothing of it is shared, so several may be compiled at a
/// time.
struct KernelModule {
  std::unique_ptr<Backend> backend;
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> code; ///< Goes before its context.

  static Expected<KernelModule> lower(const LineSource *from, std::span<Function *const> kernels, const TargetInfo &target) {
    auto backend = Backend::create(target);
    if (!backend)
      return backend.takeErrors();
    auto context = std::make_unique<llvm::LLVMContext>();
    context->setDiscardValueNames(true);
    auto code = minic::lower(from, kernels, target, **backend, *context);
    if (!code)
      return code.takeErrors();
    return KernelModule{std::move(*backend), std::move(context), std::move(*code)};
  }

  Expected<std::string> emitPtx(Trace *trace = nullptr) {
    auto optimized = [&] {
      Trace::Span span(trace, "LLVM: optimize");
      return backend->optimize(*code);
    }();
    if (!optimized)
      return optimized.takeErrors();
    Trace::Span span(trace, "LLVM: PTX");
    return backend->emitPtx(*code);
  }
};

} // namespace

/// Calls `work` with 0 to `count` - 1, on this thread and on others as far as there are processors and threads to be had.
static void inParallel(size_t count, const std::function<void(size_t)> &work) {
  std::atomic<size_t> next = 0;
  auto takeTurns = [&] {
    for (size_t i = next++; i < count; i = next++)
      work(i);
  };
  std::vector<std::future<void>> others; // What a thread throws comes out of its future; these wait for their threads.
  size_t threads = std::min<size_t>(count, std::max(1u, std::thread::hardware_concurrency()));
  for (size_t i = 1; i < threads; ++i)
    others.push_back(std::async(std::launch::async | std::launch::deferred, takeTurns)); // Deferred where no thread can be made.
  takeTurns();
  for (std::future<void> &other : others)
    other.get();
}

Expected<std::string> emitPtx(Module &module, const TargetInfo &target, const LineSource *lines) {
  auto kernels = KernelModule::lower(lines, writtenInIr(machineKernels(module)), target);
  if (!kernels)
    return kernels.takeErrors();
  auto text = kernels->emitPtx();
  if (!text)
    return text.takeErrors();
  for (Function *kernel : machineKernels(module))
    if (const Operation *ptx = ptxOf(*kernel)) {
      if (auto given = givenPtx(*kernel, target); !given)
        return given.takeErrors();
      *text += "\n// Kernel @" + kernel->name + " is a PTX module of its own, which was given: entry " +
               ptx->attr("entry")->asString()->text + "\n";
    }
  return text;
}

Expected<std::vector<KernelCode>> emitKernels(Module &module, const TargetInfo &target, const KernelOptions &options) {
  if (auto error = unknownOverride(machineKernels(module), options.overrides))
    return *error;
  std::vector<KernelCode> result;
  std::vector<std::pair<size_t, KernelModule>> modules; ///< With the kernel's place in the result.
  Diagnostics errors;
  auto keepErrors = [&](Diagnostics found) { errors.insert(errors.end(), found.begin(), found.end()); };
  auto keep = [&](size_t place, Expected<std::string> ptx) {
    if (ptx)
      result[place].ptx = std::move(*ptx);
    else
      keepErrors(ptx.takeErrors());
  };
  for (Function *kernel : machineKernels(module)) {
    result.push_back(describe(*kernel));
    auto override = std::ranges::find(options.overrides, kernel->name, &KernelOverride::kernel);
    if (override != options.overrides.end()) {
      result.back().overriddenBy = override->file;
      result.back().entry.clear();
      keep(result.size() - 1, overridingPtx(*override, result.back(), target));
    } else if (ptxOf(*kernel))
      keep(result.size() - 1, givenPtx(*kernel, target));
    else if (auto lowered = KernelModule::lower(options.lines, {&kernel, 1}, target))
      modules.emplace_back(result.size() - 1, std::move(*lowered));
    else
      keepErrors(lowered.takeErrors());
  }
  // LLVM takes most of the time that compiling takes.
  std::vector<std::optional<Expected<std::string>>> texts(modules.size());
  inParallel(modules.size(), [&](size_t i) {
    auto &[place, kernel] = modules[i];
    Trace::Span span(options.trace, "code of " + result[place].name);
    texts[i] = kernel.emitPtx(options.trace);
  });
  for (size_t i = 0; i < modules.size(); ++i)
    keep(modules[i].first, std::move(*texts[i]));
  if (!errors.empty())
    return errors;
  return result;
}

std::vector<KernelCode> describeKernels(Module &module) {
  std::vector<KernelCode> result;
  for (Function *function : module.functions())
    if (isKernel(*function))
      result.push_back(describe(*function));
  return result;
}

std::string llvmVersion() { return LLVM_VERSION_STRING; }

std::string llvmBuildId() { return buildIdOf(reinterpret_cast<const void *>(&llvm::outs)); }

Expected<int> newestPtx() {
  auto backend = Backend::create(allTargets().front());
  return backend ? Expected<int>((*backend)->newestPtx()) : Expected<int>(backend.takeErrors());
}

} // namespace minic
