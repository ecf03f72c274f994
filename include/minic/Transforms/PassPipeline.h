// Lists of passes as text: `canonicalize,fuse{max=8},cse{level=tile}`.
#pragma once

#include "minic/Transforms/Passes.h"

namespace minic {

/// Reads a list. A pass runs on the functions of every level that it takes, unless `level` names one. Errors (UnknownPass, BadFlag)
/// name `where` the list is from: "--passes".
Expected<std::vector<PassStep>> parsePipeline(std::string_view text, std::string_view where);
/// The text that `parsePipeline` reads the same list from; options that are the standard ones are left out.
std::string pipelineText(std::span<const PassStep> steps);

/// The place of a step by its pass's name: `cse` is the last one, `cse#2` the second.
Expected<size_t> findStep(std::span<const PassStep> steps, std::string_view name, std::string_view where);
/// A step's name among these, for `findStep`: with a number if its pass stands there several times.
std::string nameOfStep(std::span<const PassStep> steps, size_t index);

} // namespace minic
