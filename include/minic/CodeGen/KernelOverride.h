// Code that a user gives for a kernel, in the place of what the compiler would make.
#pragma once

#include "minic/Artifact/Artifact.h"
#include "minic/Support/Expected.h"

#include <string>
#include <vector>

namespace minic {

struct KernelOverride {
  std::string kernel; ///< Its name, which the code's entry has too.
  std::string file;   ///< Where the text is from.
  std::string text;   ///< PTX, or LLVM IR if the file's name ends in .ll.
  bool isLLVM() const { return file.ends_with(".ll"); }
};

} // namespace minic
