// Text to IR.
#pragma once

#include "minic/IR/IR.h"
#include "minic/Support/Expected.h"

#include <memory>

namespace minic {

/// Parses a whole file. Input is untrusted: any bytes give a module or diagnostics (several where they are independent), in time
/// linear in the text and with bounded nesting. The result is structurally whole (every block has its terminator, every use its
/// definition) but not verified: call `verify`.
///
/// Constants are rounded to their element type here; a literal that does not fit is an error (BadConstant).
Expected<std::unique_ptr<Module>> parseModule(Context &context, const SourceBuffer &source);

/// One type, e.g. `tensor<MxNxf32>` (the whole text).
Expected<Type> parseType(Context &context, std::string_view text);

/// One attribute, e.g. `#rows<block = [4, 1024]>` (the whole text).
Expected<Attribute> parseAttribute(std::string_view text);

} // namespace minic
