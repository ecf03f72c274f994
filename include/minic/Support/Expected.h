// A value, or the diagnostics that say why there is none.
#pragma once

#include "minic/Support/Diagnostic.h"

#include <cassert>
#include <utility>
#include <variant>

namespace minic {

/// Holds a T or a non-empty list of diagnostics. Must be looked at: `if (!x) return x.takeErrors();`.
template <typename T> class [[nodiscard]] Expected {
public:
  Expected(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Expected(Diagnostic error) : state(std::in_place_index<1>) { std::get<1>(state).push_back(std::move(error)); }
  Expected(Diagnostics errors) : state(std::in_place_index<1>, std::move(errors)) { assert(!std::get<1>(state).empty()); }

  explicit operator bool() const { return state.index() == 0; }
  T &operator*() { return value(); }
  const T &operator*() const { return value(); }
  T *operator->() { return &value(); }
  const T *operator->() const { return &value(); }
  Diagnostics &errors() {
    assert(!*this && "errors() of a value");
    return std::get<1>(state);
  }
  Diagnostics takeErrors() { return std::move(errors()); }

private:
  T &value() {
    assert(*this && "the value of a failure");
    return std::get<0>(state);
  }
  const T &value() const {
    assert(*this && "the value of a failure");
    return std::get<0>(state);
  }
  std::variant<T, Diagnostics> state;
};

/// Success, or diagnostics.
template <> class [[nodiscard]] Expected<void> {
public:
  Expected() = default;
  Expected(Diagnostic error) { list.push_back(std::move(error)); }
  Expected(Diagnostics errors) : list(std::move(errors)) { assert(!list.empty()); }
  explicit operator bool() const { return list.empty(); }
  Diagnostics &errors() { return list; }
  Diagnostics takeErrors() { return std::move(list); }

private:
  Diagnostics list;
};

} // namespace minic
