// What the CodeGen tests share: text to PTX, and ptxas as the judge of it.
#pragma once

#include "minic/CodeGen/CodeGen.h"
#include "minic/IR/Parser.h"
#include "minic/IR/Verifier.h"

#include <gtest/gtest.h>

#include <string>

namespace minic::test {

/// A verified module, or a failed test.
class Parsed {
public:
  explicit Parsed(const std::string &text);
  Module &operator*() const { return *module; }
  explicit operator bool() const { return module != nullptr; }

private:
  Context context;
  std::unique_ptr<Module> module;
};

const TargetInfo &target(std::string_view name);
/// PTX of all kernels in the text; empty, with a failed test, if there is none.
std::string ptxOf(const std::string &text, std::string_view targetName = defaultTarget);
/// LLVM IR as it is before any pass.
std::string llvmOf(const std::string &text, std::string_view targetName = defaultTarget);
/// The rendered errors of code generation.
std::string errorsOf(const std::string &text, std::string_view targetName = defaultTarget);

size_t count(const std::string &text, std::string_view word);
inline bool has(const std::string &text, std::string_view word) { return text.find(word) != std::string::npos; }

/// The path of ptxas, or empty where it is not installed.
std::string ptxasPath();
/// What ptxas says of the PTX: its errors, or the words `spills` for every kernel that spills; empty if all is well.
std::string ptxasComplaints(const std::string &ptx, std::string_view targetName);

} // namespace minic::test
