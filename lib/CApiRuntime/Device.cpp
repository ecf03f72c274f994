// Devices, streams and events of the C interface. `minic_device_open` is where the interpreter is known or not: rooms CApi and
// CApiCuda.
#include "minic/CApiRuntime/Handles.h"
#include "minic/Runtime/CudaDevice.h"

namespace minic {

MinicDeviceKind deviceKindOf(const std::string &name, int &ordinal) {
  auto cuda = cudaOrdinal(name);
  ordinal = cuda.value_or(0);
  return cuda ? MINIC_DEVICE_CUDA : MINIC_DEVICE_CPU;
}

static Expected<void> giveDevice(std::shared_ptr<Device> device, MinicDevice **handle) {
  auto object = std::make_unique<DeviceObject>();
  object->name = device->name();
  object->device = std::move(device);
  *handle = give(std::move(object));
  return {};
}

//===- Opening -===//

static Expected<std::shared_ptr<Device>> openCuda(int ordinal) {
  ProcessState &state = ProcessState::get();
  std::lock_guard lock(state.opening);
  std::shared_ptr<Client> client = state.client.lock();
  if (!client) {
    auto opened = Client::open();
    if (!opened)
      return opened.takeErrors();
    state.client = client = std::move(*opened);
  }
  auto device = client->device(ordinal);
  if (!device)
    return device.takeErrors();
  return std::shared_ptr<Device>(std::move(*device));
}

static Expected<std::shared_ptr<Device>> openByName(std::string_view name, std::shared_ptr<Device> (*makeInterpreter)()) {
  std::string why;
  if (name == "auto" && (!makeInterpreter || cudaAvailable(why)))
    return openCuda(0);
  if (name == "cpu" || name == "auto") {
    if (!makeInterpreter)
      return Diagnostic{.code = ErrorCode::NoDevice,
                        .message = "this library runs on CUDA devices alone: it has no interpreter, which is what 'cpu' names",
                        .fix = "link libminic instead of libminic_runtime, or open \"cuda\""};
    ProcessState &state = ProcessState::get();
    std::lock_guard lock(state.opening);
    std::shared_ptr<Device> interpreter = state.interpreter.lock();
    if (!interpreter)
      state.interpreter = interpreter = makeInterpreter();
    return interpreter;
  }
  if (auto ordinal = cudaOrdinal(name))
    return openCuda(*ordinal);
  return badArgument("name", "is '" + std::string(name) + "', expected auto, cuda, cuda:N or cpu");
}

MinicError *openDevice(const char *name, MinicDevice **device, std::shared_ptr<Device> (*makeInterpreter)()) {
  return guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(device, "device"); !place)
      return place;
    if (!name)
      return badArgument("name", "is NULL, expected auto, cuda, cuda:N or cpu");
    auto opened = openByName(name, makeInterpreter);
    return opened ? giveDevice(std::move(*opened), device) : opened.takeErrors();
  });
}

} // namespace minic

using namespace minic;

//===- Devices -===//

MinicError *minic_device_adopt(void *context, MinicDevice **device) {
  return guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(device, "device"); !place)
      return place;
    if (!context)
      return badArgument("context", "is NULL, expected a CUDA context");
    auto client = Client::open();
    if (!client)
      return client.takeErrors();
    auto adopted = (*client)->adopt(context);
    if (!adopted)
      return adopted.takeErrors();
    return giveDevice(std::move(*adopted), device);
  });
}

MinicError *minic_cuda_device_count(int *count) {
  return guarded([&]() -> Expected<void> {
    if (!count)
      return badArgument("count", "is NULL, expected a place for the result");
    auto client = Client::open();
    if (!client)
      return client.takeErrors();
    *count = (*client)->deviceCount();
    return {};
  });
}

MinicError *minic_device_info(MinicDevice *device, MinicDeviceInfo *info) {
  return guarded([&]() -> Expected<void> {
    auto object = use<DeviceObject>(device, "device");
    if (!object)
      return object.takeErrors();
    int ordinal;
    MinicDeviceInfo known = {.name = (*object)->name.c_str(), .kind = deviceKindOf((*object)->name, ordinal)};
    known.ordinal = ordinal;
    known.compute_capability = (*object)->device->computeCapability();
    return fillInfo(known, info);
  });
}

MinicError *minic_device_destroy(MinicDevice *device) { return destroy<DeviceObject>(device, "device"); }

//===- Streams -===//

static Expected<void> giveStream(std::shared_ptr<Stream> stream, MinicStream **handle) {
  auto object = std::make_unique<StreamObject>();
  object->stream = std::move(stream);
  *handle = give(std::move(object));
  return {};
}

MinicError *minic_stream_create(MinicDevice *device, MinicStream **stream) {
  return guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(stream, "stream"); !place)
      return place;
    auto object = use<DeviceObject>(device, "device");
    if (!object)
      return object.takeErrors();
    auto created = Stream::create((*object)->device);
    return created ? giveStream(std::move(*created), stream) : created.takeErrors();
  });
}

MinicError *minic_stream_borrow(MinicDevice *device, void *cuda_stream, MinicStream **stream) {
  return guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(stream, "stream"); !place)
      return place;
    auto object = use<DeviceObject>(device, "device");
    if (!object)
      return object.takeErrors();
    return giveStream(Stream::borrow((*object)->device, cuda_stream), stream);
  });
}

MinicError *minic_stream_handle(MinicStream *stream, void **cuda_stream) {
  return guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(cuda_stream, "cuda_stream"); !place)
      return place;
    auto object = use<StreamObject>(stream, "stream");
    if (!object)
      return object.takeErrors();
    *cuda_stream = (*object)->stream->handle();
    return {};
  });
}

MinicError *minic_stream_synchronize(MinicStream *stream) {
  return guarded([&]() -> Expected<void> {
    auto object = use<StreamObject>(stream, "stream");
    return object ? (*object)->stream->synchronize() : object.takeErrors();
  });
}

/// The event and the stream of a call, which must be of one device.
static Expected<void> withBoth(MinicEvent *event, MinicStream *stream, Expected<void> (Event::*method)(const Stream &) const) {
  auto eventObject = use<EventObject>(event, "event");
  if (!eventObject)
    return eventObject.takeErrors();
  auto streamObject = use<StreamObject>(stream, "stream");
  if (!streamObject)
    return streamObject.takeErrors();
  const Event &theEvent = *(*eventObject)->event;
  const Stream &theStream = *(*streamObject)->stream;
  if (&theEvent.device() != &theStream.device())
    return badArgument("stream",
                       "is a stream of " + theStream.device().name() + ", the event is one of " + theEvent.device().name());
  return (theEvent.*method)(theStream);
}

MinicError *minic_stream_wait(MinicStream *stream, MinicEvent *event) {
  return guarded([&] { return withBoth(event, stream, &Event::hold); });
}

MinicError *minic_stream_destroy(MinicStream *stream) { return destroy<StreamObject>(stream, "stream"); }

//===- Events -===//

MinicError *minic_event_create(MinicDevice *device, MinicEvent **event) {
  return guarded([&]() -> Expected<void> {
    if (auto place = prepareResult(event, "event"); !place)
      return place;
    auto object = use<DeviceObject>(device, "device");
    if (!object)
      return object.takeErrors();
    auto created = Event::create((*object)->device);
    if (!created)
      return created.takeErrors();
    auto made = std::make_unique<EventObject>();
    made->event = std::move(*created);
    *event = give(std::move(made));
    return {};
  });
}

MinicError *minic_event_record(MinicEvent *event, MinicStream *stream) {
  return guarded([&] { return withBoth(event, stream, &Event::record); });
}

MinicError *minic_event_synchronize(MinicEvent *event) {
  return guarded([&]() -> Expected<void> {
    auto object = use<EventObject>(event, "event");
    return object ? (*object)->event->synchronize() : object.takeErrors();
  });
}

MinicError *minic_event_is_done(MinicEvent *event, int *done) {
  return guarded([&]() -> Expected<void> {
    auto object = use<EventObject>(event, "event");
    if (!object)
      return object.takeErrors();
    if (!done)
      return badArgument("done", "is NULL, expected a place for the result");
    auto answer = (*object)->event->isDone();
    if (!answer)
      return answer.takeErrors();
    *done = *answer;
    return {};
  });
}

MinicError *minic_event_elapsed(MinicEvent *from, MinicEvent *to, double *milliseconds) {
  return guarded([&]() -> Expected<void> {
    auto first = use<EventObject>(from, "from");
    if (!first)
      return first.takeErrors();
    auto second = use<EventObject>(to, "to");
    if (!second)
      return second.takeErrors();
    if (!milliseconds)
      return badArgument("milliseconds", "is NULL, expected a place for the result");
    auto elapsed = (*second)->event->msSince(*(*first)->event);
    if (!elapsed)
      return elapsed.takeErrors();
    *milliseconds = *elapsed;
    return {};
  });
}

MinicError *minic_event_destroy(MinicEvent *event) { return destroy<EventObject>(event, "event"); }
