// Which build of a program or library runs.
#pragma once

#include <string>

namespace minic {

/// The GNU build id, in hexadecimal digits, of the program or library that holds the code at `address`: another link has another
/// one (ld, "--build-id"). Where it was linked without one, its path, size and time of change.
std::string buildIdOf(const void *address);

} // namespace minic
