// Tensor maps: what TMA knows of a buffer. Private to lib/Runtime.
#pragma once

#include "DriverApi.h"
#include "minic/Artifact/Artifact.h"

#include <array>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

namespace minic::cuda {

/// CUtensorMap, opaque.
struct alignas(64) EncodedMap {
  std::array<std::byte, tensorMapBytes> bytes;
};

/// The maps of one parameter whose shape is known, encoded once for each address.
class TensorMaps {
public:
  /// `shape` must be one that tensorMapFault has nothing against.
  TensorMaps(const DriverApi &api, const TensorMapSpec &spec, std::vector<int64_t> shape)
      : api(api), spec(spec), shape(std::move(shape)) {}
  /// The map of the buffer at `address`. Callable from several threads at a time.
  Expected<void> find(CuPointer address, EncodedMap &map);

private:
  Expected<EncodedMap> encode(CuPointer address) const;

  const DriverApi &api;
  const TensorMapSpec &spec;
  std::vector<int64_t> shape;
  std::mutex mutex;
  std::unordered_map<CuPointer, EncodedMap> maps;
};

} // namespace minic::cuda
