// What the functions of the C interface are made of: objects behind handles, arguments that are checked, errors that become
// handles.
#pragma once

#include "minic-c/runtime.h"
#include "minic/CApiRuntime/HandleTable.h"
#include "minic/Cache/CacheUse.h"
#include "minic/Runtime/Client.h"
#include "minic/Runtime/Executable.h"

#include <cstring>
#include <new>

namespace minic {

/// What the C interface keeps for the whole process. Never destroyed: handles are still used while the process exits. A child of
/// fork gets a new one, since only one of the parent's threads goes on in it and locks may be held by the others.
struct ProcessState {
  explicit ProcessState(uint32_t epoch) : handles(epoch) {}
  static ProcessState &get();

  HandleTable handles;
  std::mutex opening; ///< Of what follows: a device that is opened again is the same one.
  std::weak_ptr<Client> client;
  std::weak_ptr<Device> interpreter;
};

//===- Objects -===//

struct ErrorObject final : HandleObject {
  static constexpr HandleKind handleKind = HandleKind::Error;
  using Handle = MinicError;
  MinicErrorKind kind = MINIC_ERROR_DATA;
  std::string code, message, fix;
};

struct TextObject final : HandleObject {
  static constexpr HandleKind handleKind = HandleKind::Text;
  using Handle = MinicText;
  std::string text;
};

struct DeviceObject final : HandleObject {
  static constexpr HandleKind handleKind = HandleKind::Device;
  using Handle = MinicDevice;
  std::shared_ptr<Device> device;
  std::string name;
};

struct StreamObject final : HandleObject {
  static constexpr HandleKind handleKind = HandleKind::Stream;
  using Handle = MinicStream;
  std::shared_ptr<Stream> stream;
};

struct EventObject final : HandleObject {
  static constexpr HandleKind handleKind = HandleKind::Event;
  using Handle = MinicEvent;
  std::shared_ptr<Event> event;
};

struct BufferObject final : HandleObject {
  static constexpr HandleKind handleKind = HandleKind::Buffer;
  using Handle = MinicBuffer;
  std::shared_ptr<const Buffer> buffer;
};

/// Tensor specs as C sees them.
class SpecList {
public:
  explicit SpecList(const std::vector<TensorSpec> &specs);
  SpecList(const SpecList &) = delete;
  const std::vector<MinicTensorSpec> &list() const { return entries; }

private:
  struct Texts {
    std::string name;
    std::vector<std::string> dims;
    std::vector<const char *> dimTexts;
    std::vector<int64_t> sizes;
  };
  std::vector<Texts> texts;
  std::vector<MinicTensorSpec> entries;
};

/// One graph, compiled for one or more targets.
struct ArtifactObject final : HandleObject {
  static constexpr HandleKind handleKind = HandleKind::Artifact;
  using Handle = MinicArtifact;
  ArtifactObject(std::vector<Artifact> variants, std::string warnings);
  std::shared_ptr<const std::vector<Artifact>> variants; ///< At least one.
  std::string warnings, targets;
  SpecList inputs, results;
};

struct ExecutableObject final : HandleObject {
  static constexpr HandleKind handleKind = HandleKind::Executable;
  using Handle = MinicExecutable;
  ExecutableObject(std::shared_ptr<Executable> loaded);
  std::shared_ptr<Executable> executable;
  std::shared_ptr<Stream> defaultStream;
  MinicDeviceKind deviceKind;
  int ordinal;
  SpecList inputs, results;
};

struct CapturedRunObject final : HandleObject {
  static constexpr HandleKind handleKind = HandleKind::CapturedRun;
  using Handle = MinicCapturedRun;
  explicit CapturedRunObject(CapturedRun run) : run(std::move(run)) {}
  CapturedRun run;
  std::shared_ptr<Stream> defaultStream;
};

struct CacheObject final : HandleObject {
  static constexpr HandleKind handleKind = HandleKind::Cache;
  using Handle = MinicCache;
  CacheUse use; ///< With a store.
};

/// What the functions that ask for specs give.
Expected<void> giveSpecs(const SpecList &list, const MinicTensorSpec **specs, size_t *count);
/// "cuda:1" is CUDA and 1; everything else is the interpreter.
MinicDeviceKind deviceKindOf(const std::string &name, int &ordinal);
MinicDType toCType(DType dtype);

//===- Arguments -===//

/// BadHandle for `argument`.
Diagnostic badHandle(const char *argument, HandleKind kind, HandleFault fault);
/// BadArgument: "argument 'x' " and what is wrong with it.
Diagnostic badArgument(const std::string &argument, const std::string &what);

/// The object of a handle, which stays while this does.
template <typename T> class Pinned {
public:
  explicit Pinned(HandleTable::Slot *slot) : slot(slot) {}
  Pinned(Pinned &&other) noexcept : slot(std::exchange(other.slot, nullptr)) {}
  Pinned &operator=(Pinned &&) = delete;
  ~Pinned() {
    if (slot)
      ProcessState::get().handles.unpin(*slot);
  }
  T *operator->() const { return static_cast<T *>(slot->object.get()); }
  T &operator*() const { return static_cast<T &>(*slot->object); }

private:
  HandleTable::Slot *slot;
};

template <typename T> Expected<Pinned<T>> use(const typename T::Handle *handle, const char *argument) {
  HandleFault fault;
  if (HandleTable::Slot *slot = ProcessState::get().handles.pin(handle, T::handleKind, fault))
    return Pinned<T>(slot);
  return badHandle(argument, T::handleKind, fault);
}

template <typename T> typename T::Handle *give(std::unique_ptr<T> object) {
  return static_cast<typename T::Handle *>(ProcessState::get().handles.insert(T::handleKind, std::move(object)));
}

/// Where a result goes: not null, and null until there is a result.
template <typename T> Expected<void> prepareResult(T **result, const char *argument) {
  if (!result)
    return badArgument(argument, "is NULL, expected a place for the result");
  *result = nullptr;
  return {};
}

//===- Calls -===//

/// An error for diagnostics, rendered with the text that they are about. Never null.
MinicError *makeError(const Diagnostics &list, const SourceBuffer *source = nullptr) noexcept;
/// For where there is no memory to say it with.
MinicError *outOfMemoryError() noexcept;
/// For an exception that should not have come this far.
MinicError *unexpectedError(const char *what) noexcept;

/// The body of a C function: gives Expected<void>. `source`: the text that its diagnostics are about.
template <typename Body> MinicError *guarded(Body body, const SourceBuffer *source = nullptr) noexcept {
  try {
    Expected<void> done = body();
    return done ? nullptr : makeError(done.errors(), source);
  } catch (const std::bad_alloc &) {
    return outOfMemoryError();
  } catch (const std::exception &exception) {
    return unexpectedError(exception.what());
  } catch (...) {
    return unexpectedError("of an unknown type");
  }
}

template <typename T> MinicError *destroy(typename T::Handle *handle, const char *argument) noexcept {
  return guarded([&]() -> Expected<void> {
    HandleFault fault;
    if (!ProcessState::get().handles.erase(handle, T::handleKind, fault))
      return badHandle(argument, T::handleKind, fault);
    return {};
  });
}

/// Fills a struct that begins with its own size: what the caller's version of it has.
template <typename Info> Expected<void> fillInfo(Info known, Info *info, const char *argument = "info") {
  if (!info)
    return badArgument(argument, "is NULL, expected a place for the result");
  size_t size = info->struct_size;
  if (size < sizeof(size_t))
    return badArgument(argument, "has struct_size " + std::to_string(size) + ", expected the size of its type");
  known.struct_size = size;
  if (size > sizeof(Info))
    std::memset(reinterpret_cast<char *>(info) + sizeof(Info), 0, size - sizeof(Info));
  std::memcpy(info, &known, std::min(size, sizeof(Info)));
  return {};
}

/// Options that begin with their own size, as this version knows them; NULL is all zero. BadArgument where a newer one is set.
template <typename Options> Expected<Options> readSized(const Options *given, const char *argument) {
  Options options = {};
  if (!given)
    return options;
  if (given->struct_size < sizeof(size_t))
    return badArgument(argument, "has struct_size " + std::to_string(given->struct_size) + ", expected the size of its type");
  auto *bytes = reinterpret_cast<const char *>(given);
  std::memcpy(&options, bytes, std::min(given->struct_size, sizeof options));
  for (size_t i = sizeof options; i < given->struct_size; ++i)
    if (bytes[i] != 0)
      return badArgument(argument, "sets an option of a newer version of minic");
  return options;
}

/// `minic_device_open`, with or without an interpreter to open.
MinicError *openDevice(const char *name, MinicDevice **device, std::shared_ptr<Device> (*makeInterpreter)());

} // namespace minic
