#include "minic/CApiRuntime/Handles.h"

#include <algorithm>

namespace minic {

//===- Errors out of diagnostics -===//

/// No slot has this index, so no other handle is equal to it.
static MinicError *const outOfMemory = reinterpret_cast<MinicError *>(uintptr_t(0xFFFFFFF0) | uintptr_t(HandleKind::Error));

MinicError *outOfMemoryError() noexcept { return outOfMemory; }

static MinicErrorKind kindOf(std::string_view code) {
  if (code.starts_with("E09"))
    return MINIC_ERROR_ENVIRONMENT;
  return code.starts_with("E10") || code.starts_with("E11") ? MINIC_ERROR_USAGE : MINIC_ERROR_DATA;
}

MinicError *makeError(const Diagnostics &list, const SourceBuffer *source) noexcept {
  try {
    auto isError = [](const Diagnostic &diagnostic) { return diagnostic.severity == Severity::Error; };
    auto first = std::ranges::find_if(list, isError);
    auto fixed = std::ranges::find_if(list, [](const Diagnostic &diagnostic) { return !diagnostic.fix.empty(); });
    auto error = std::make_unique<ErrorObject>();
    if (first != list.end())
      error->code = errorCodeName(first->code);
    error->kind = kindOf(error->code);
    error->message = renderDiagnostics(list, source);
    if (fixed != list.end())
      error->fix = fixed->fix;
    return give(std::move(error));
  } catch (...) {
    return outOfMemory;
  }
}

MinicError *unexpectedError(const char *what) noexcept {
  try {
    return makeError({{.code = ErrorCode::Unexpected,
                       .message = "an exception inside minic: " + std::string(what),
                       .fix = "this is a fault of minic: please report it"}});
  } catch (...) {
    return outOfMemory;
  }
}

//===- Arguments -===//

static const char *kindName(HandleKind kind) {
  static constexpr const char *names[] = {"",         "an error",    "a text",        "a device",       "a stream", "an event",
                                          "a buffer", "an artifact", "an executable", "a captured run", "a cache"};
  return names[size_t(kind)];
}

Diagnostic badHandle(const char *argument, HandleKind kind, HandleFault fault) {
  std::string who = "argument '" + std::string(argument) + "' ", expected = std::string(", expected ") + kindName(kind);
  Diagnostic error{.code = ErrorCode::BadHandle};
  switch (fault) {
  case HandleFault::Null:
    error.message = who + "is NULL" + expected;
    break;
  case HandleFault::Foreign:
    error.message = who + "is no handle of minic" + expected;
    break;
  case HandleFault::WrongKind:
    error.message = who + "is a handle of another kind" + expected;
    break;
  case HandleFault::Destroyed:
    error.message = who + "was destroyed already" + expected;
    break;
  case HandleFault::BeforeFork:
    error.message = who + "belongs to the process that this one was forked from" + expected;
    error.fix = "make it in this process";
    break;
  }
  return error;
}

Diagnostic badArgument(const std::string &argument, const std::string &what) {
  return {.code = ErrorCode::BadArgument, .message = "argument '" + argument + "' " + what};
}

/// What `pick` gives of an error, while its handle stands.
template <typename Pick> static auto ofError(const MinicError *error, Pick pick) -> decltype(pick(std::declval<ErrorObject &>())) {
  HandleFault fault;
  HandleTable::Slot *slot = ProcessState::get().handles.pin(error, HandleKind::Error, fault);
  if (!slot)
    return {};
  return pick(*Pinned<ErrorObject>(slot));
}

} // namespace minic

//===- The C functions -===//

using namespace minic;

uint32_t minic_api_version(void) { return MINIC_API_VERSION; }
const char *minic_version(void) { return MINIC_VERSION; }

MinicErrorKind minic_error_kind(const MinicError *error) {
  if (error == outOfMemory)
    return MINIC_ERROR_ENVIRONMENT;
  return ofError(error, [](ErrorObject &object) { return object.kind; });
}

/// Texts of errors are never null.
static const char *textOr(const char *text) { return text ? text : ""; }

const char *minic_error_code(const MinicError *error) {
  if (error == outOfMemory)
    return errorCodeName(ErrorCode::OutOfMemory).data();
  return textOr(ofError(error, [](ErrorObject &object) { return object.code.c_str(); }));
}

const char *minic_error_message(const MinicError *error) {
  if (error == outOfMemory)
    return "error: there is no memory left [E0905]\n";
  return textOr(ofError(error, [](ErrorObject &object) { return object.message.c_str(); }));
}

const char *minic_error_fix(const MinicError *error) {
  return textOr(ofError(error, [](ErrorObject &object) { return object.fix.c_str(); }));
}

void minic_error_destroy(MinicError *error) {
  HandleFault fault;
  ProcessState::get().handles.erase(error, HandleKind::Error, fault);
}

const char *minic_text_data(const MinicText *text, size_t *size) {
  if (size)
    *size = 0;
  HandleFault fault;
  HandleTable::Slot *slot = ProcessState::get().handles.pin(text, HandleKind::Text, fault);
  if (!slot)
    return nullptr;
  Pinned<TextObject> object(slot);
  if (size)
    *size = object->text.size();
  return object->text.c_str();
}

MinicError *minic_text_destroy(MinicText *text) { return destroy<TextObject>(text, "text"); }
