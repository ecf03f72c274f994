#include "Backend.h"
#include "AvoidPtxasBugs.h"

#include <llvm/ADT/SmallString.h>
#include <llvm/Analysis/CGSCCPassManager.h>
#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetMachine.h>

#include <algorithm>
#include <mutex>

// Only this back end: llvm/Support/TargetSelect.h would initialize all that LLVM was built with.
extern "C" {
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

namespace minic::codegen {

static const llvm::Triple triple("nvptx64-nvidia-cuda");

Expected<std::unique_ptr<Backend>> Backend::create(const TargetInfo &target) {
  static std::once_flag initialized;
  std::call_once(initialized, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  std::string error;
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return Diagnostic{.code = ErrorCode::BackendFailed, .message = "LLVM has no NVPTX back end: " + error};
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;            // A product and a sum round twice unless the IR says `fma`.
  std::string features = "+ptx" + std::to_string(target.minPtx); // The lowest, which the oldest drivers read.
  std::unique_ptr<llvm::TargetMachine> machine(backend->createTargetMachine(
      triple, std::string(target.name), features, options, std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    return Diagnostic{.code = ErrorCode::BackendFailed, .message = "LLVM cannot compile for " + std::string(target.name)};
  return std::unique_ptr<Backend>(new Backend(std::move(machine)));
}

Backend::Backend(std::unique_ptr<llvm::TargetMachine> machine) : machine(std::move(machine)) {}
Backend::~Backend() = default;

void Backend::prepare(llvm::Module &module) const {
  module.setTargetTriple(triple);
  module.setDataLayout(machine->createDataLayout());
}

Expected<void> Backend::verify(const llvm::Module &module) const {
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (!llvm::verifyModule(module, &stream))
    return {};
  return Diagnostic{.code = ErrorCode::BackendFailed, .message = "LLVM does not accept the code of the kernels: " + text};
}

Expected<void> Backend::optimize(llvm::Module &module) const {
  // Straight-line clean-up: kernels have no calls and no stack, and how far loops and vectors go is the schedule's choice. On the
  // kernels of the tests this gives what LLVM's -O2 gives in half its time.
  constexpr const char *passes = "function(simplifycfg,early-cse<memssa>,instcombine<no-verify-fixpoint>,"
                                 "loop-mssa(licm),"            // Addresses and masks leave the loops ...
                                 "gvn,correlated-propagation," // ... where equal ones meet; sizes below 2^32 divide in 32 bits.
                                 "instcombine<no-verify-fixpoint>,simplifycfg,adce)";
  llvm::PassBuilder builder(machine.get());
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  llvm::ModulePassManager pipeline;
  if (llvm::Error error = builder.parsePassPipeline(pipeline, passes))
    return Diagnostic{.code = ErrorCode::BackendFailed,
                      .message = "LLVM does not have the passes: " + llvm::toString(std::move(error))};
  pipeline.run(module, modules);
  avoidPtxasBugs(module);
  return {};
}

namespace {

/// Keeps LLVM's errors; without it they would end the process.
struct ErrorCollector : llvm::DiagnosticHandler {
  explicit ErrorCollector(Diagnostics &errors) : errors(errors) {}
  bool handleDiagnostics(const llvm::DiagnosticInfo &info) override {
    if (info.getSeverity() != llvm::DS_Error)
      return true;
    std::string text;
    llvm::raw_string_ostream stream(text);
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info.print(printer);
    errors.push_back({.code = ErrorCode::BackendFailed, .message = "LLVM: " + text});
    return true;
  }
  Diagnostics &errors;
};

} // namespace

int Backend::newestPtx() const {
  int newest = 0;
  for (const llvm::SubtargetFeatureKV &feature : machine->getMCSubtargetInfo()->getAllProcessorFeatures()) {
    int version = 0;
    if (llvm::StringRef name = feature.Key; name.consume_front("ptx") && !name.getAsInteger(10, version))
      newest = std::max(newest, version);
  }
  return newest;
}

Expected<std::string> Backend::emitPtx(llvm::Module &module) const {
  Diagnostics errors;
  llvm::LLVMContext &context = module.getContext();
  context.setDiagnosticHandler(std::make_unique<ErrorCollector>(errors));
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  bool cannotEmit =
      machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile, /*DisableVerify=*/true);
  if (!cannotEmit)
    passes.run(module);
  context.setDiagnosticHandler(nullptr);
  if (cannotEmit)
    return Diagnostic{.code = ErrorCode::BackendFailed, .message = "LLVM cannot print PTX"};
  if (!errors.empty())
    return errors;
  return std::string(text);
}

} // namespace minic::codegen
