// What the messages of an error code are about: an example of it, the same done right, and why. From lib/Support/ErrorTexts/*.txt.
#pragma once

#include "minic/Support/Diagnostic.h"

namespace minic {

struct ErrorText {
  /// Commands, a line each behind `$ `, then the file `wrong.ir` or `right.ir` that they read. As a shell, they are run in one
  /// folder.
  std::string wrong, right;
  std::string reason;
  /// What must be there before the commands do as said, for example a GPU; empty if they do so anywhere.
  std::string needs;
};

const ErrorText &errorText(ErrorCode code);

} // namespace minic
