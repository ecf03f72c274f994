#include "minic/Runtime/Stream.h"

namespace minic {

Stream::Stream(std::shared_ptr<Device> device, StreamHandle handle, bool owned)
    : owner(std::move(device)), stream(handle), owned(owned) {}

Expected<std::shared_ptr<Stream>> Stream::create(std::shared_ptr<Device> device) {
  auto handle = device->createStream();
  if (!handle)
    return handle.takeErrors();
  return std::shared_ptr<Stream>(new Stream(std::move(device), *handle, true));
}

std::shared_ptr<Stream> Stream::borrow(std::shared_ptr<Device> device, StreamHandle handle) {
  return std::shared_ptr<Stream>(new Stream(std::move(device), handle, false));
}

Stream::~Stream() {
  if (owned)
    owner->destroyStream(stream);
}

Event::Event(std::shared_ptr<Device> device, EventHandle handle) : owner(std::move(device)), event(handle) {}

Expected<std::shared_ptr<Event>> Event::create(std::shared_ptr<Device> device) {
  auto handle = device->createEvent();
  if (!handle)
    return handle.takeErrors();
  return std::shared_ptr<Event>(new Event(std::move(device), *handle));
}

Event::~Event() { owner->destroyEvent(event); }

} // namespace minic
