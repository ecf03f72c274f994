// What the examples do with errors: say them and stop.
#pragma once

#include <minic/minic.h>

#include <cstdlib>
#include <iostream>

using namespace minic;

inline void check(Expected<void> done) {
  if (done)
    return;
  std::cerr << renderDiagnostics(done.errors(), nullptr);
  std::exit(1);
}

template <typename T> T check(Expected<T> value) {
  if (!value)
    check(Expected<void>(value.takeErrors()));
  return std::move(*value);
}
