// Order: streams and events that belong to a device.
#pragma once

#include "minic/Artifact/Device.h"

#include <memory>

namespace minic {

/// A queue of work on a device: work in one is done in order, work in two may overlap.
class Stream {
public:
  static Expected<std::shared_ptr<Stream>> create(std::shared_ptr<Device> device);
  /// The caller's own CUstream (null: CUDA's default stream), which must outlive this.
  static std::shared_ptr<Stream> borrow(std::shared_ptr<Device> device, StreamHandle handle);
  ~Stream(); ///< Work that is enqueued is still done.
  Stream(const Stream &) = delete;

  StreamHandle handle() const { return stream; }
  Device &device() const { return *owner; }
  Expected<void> synchronize() const { return owner->synchronize(stream); }

private:
  Stream(std::shared_ptr<Device> device, StreamHandle handle, bool owned);
  std::shared_ptr<Device> owner;
  StreamHandle stream;
  bool owned;
};

/// A point in a stream that others can wait for, and whose time can be asked.
class Event {
public:
  static Expected<std::shared_ptr<Event>> create(std::shared_ptr<Device> device);
  ~Event();
  Event(const Event &) = delete;

  EventHandle handle() const { return event; }
  Device &device() const { return *owner; }
  Expected<void> record(const Stream &stream) const { return owner->record(event, stream.handle()); }
  /// What comes on `stream` from here on waits for this event.
  Expected<void> hold(const Stream &stream) const { return owner->wait(stream.handle(), event); }
  Expected<void> synchronize() const { return owner->synchronizeEvent(event); }
  Expected<bool> isDone() const { return owner->isDone(event); }
  /// Milliseconds from `earlier` to this; both must be done.
  Expected<double> msSince(const Event &earlier) const { return owner->elapsedMs(earlier.event, event); }

private:
  Event(std::shared_ptr<Device> device, EventHandle handle);
  std::shared_ptr<Device> owner;
  EventHandle event;
};

} // namespace minic
