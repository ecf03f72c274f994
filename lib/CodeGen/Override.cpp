#include "Override.h"

#include "Backend.h"
#include "minic/IR/PtxText.h"

#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/Support/SourceMgr.h>

#include <algorithm>

namespace minic::codegen {
namespace {

/// What a target's word says: the compute capability, and whether it is for that one alone.
std::pair<int, bool> capabilityOf(std::string_view word) {
  int capability = 0;
  for (char c : word)
    if (c >= '0' && c <= '9' && capability < 10000)
      capability = capability * 10 + (c - '0');
  return {capability, !word.empty() && word.back() == 'a'};
}

Diagnostic wrong(const KernelOverride &override, uint32_t line, ErrorCode code, std::string message, std::string fix = {}) {
  std::string place = override.file + (line ? ":" + std::to_string(line) : "");
  return {.code = code, .message = place + ": " + std::move(message), .fix = std::move(fix)};
}

/// Bytes of the arguments that launches pass: pointers and tensor maps, sizes, strides.
std::vector<int64_t> passedBytes(const KernelCode &kernel) {
  std::vector<int64_t> bytes;
  size_t strides = 0;
  for (const KernelParam &param : kernel.params) {
    bytes.push_back(param.map ? tensorMapBytes : 8);
    strides += size_t(param.stridedAxes);
  }
  bytes.resize(bytes.size() + kernel.dims.size(), 4);
  bytes.resize(bytes.size() + strides, 8);
  return bytes;
}

std::string sizesText(const std::vector<int64_t> &bytes) {
  std::string text;
  for (int64_t each : bytes)
    text += (text.empty() ? "" : ", ") + std::to_string(each);
  return bytes.empty() ? "none" : std::to_string(bytes.size()) + " (of " + text + " bytes)";
}

std::optional<Diagnostic> checkEntry(const KernelOverride &override, const KernelCode &kernel, const TargetInfo &target,
                                     std::string_view ptx, bool hasLines) {
  std::vector<PtxEntry> entries = ptxEntries(ptx);
  auto entry = std::ranges::find(entries, kernel.name, &PtxEntry::name);
  if (entry == entries.end()) {
    std::string list;
    for (const PtxEntry &other : entries)
      list += (list.empty() ? "" : ", ") + other.name + (hasLines ? " (line " + std::to_string(other.line) + ")" : "");
    return wrong(override, 0, ErrorCode::UnknownFunction, "there is no kernel '" + kernel.name + "'",
                 list.empty() ? "the text has no kernels" : "its kernels are " + list);
  }
  if (std::vector<int64_t> passed = passedBytes(kernel); entry->params != passed)
    return wrong(override, hasLines ? entry->line : 0, ErrorCode::LaunchMismatch,
                 "the parameters of '" + kernel.name + "' are " + sizesText(entry->params) + ", and a launch passes " +
                     sizesText(passed),
                 "keep the parameters of the kernel that `minic compile --emit=ptx` shows");
  if (std::string needs = ptxTarget(ptx); !runsPtxFor(needs, target))
    return wrong(override, 0, ErrorCode::ResourceLimit,
                 "the code is for " + (needs.empty() ? "no target" : needs) + ", and the target is " + std::string(target.name));
  return std::nullopt;
}

Expected<std::string> ptxOfLLVM(const KernelOverride &override, const TargetInfo &target) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic found;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(override.text, found, context);
  if (!module)
    return wrong(override, uint32_t(std::max(found.getLineNo(), 0)), ErrorCode::BackendFailed, found.getMessage().str());
  auto backend = Backend::create(target);
  if (!backend)
    return backend.takeErrors();
  (*backend)->prepare(*module);
  if (auto valid = (*backend)->verify(*module); !valid)
    return wrong(override, 0, ErrorCode::BackendFailed, valid.errors().front().message);
  return (*backend)->emitPtx(*module);
}

} // namespace

bool runsPtxFor(std::string_view ptxTarget, const TargetInfo &target) {
  auto [needed, alone] = capabilityOf(ptxTarget);
  int had = target.computeMajor * 10 + target.computeMinor;
  return needed > 0 && (alone ? needed == had : needed <= had);
}

Expected<std::string> overridingPtx(const KernelOverride &override, const KernelCode &kernel, const TargetInfo &target) {
  auto ptx = override.isLLVM() ? ptxOfLLVM(override, target) : Expected<std::string>(override.text);
  if (!ptx)
    return ptx;
  if (auto error = checkEntry(override, kernel, target, *ptx, !override.isLLVM()))
    return *error;
  return ptx;
}

} // namespace minic::codegen
