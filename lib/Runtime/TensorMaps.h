// Tensor maps: what TMA knows of a buffer, encoded once for each address and shape. Private to lib/Runtime.
#pragma once

#include "DriverApi.h"
#include "minic/Artifact/Artifact.h"

#include <array>
#include <map>
#include <span>
#include <tuple>
#include <vector>

namespace minic::cuda {

/// CUtensorMap, opaque.
struct alignas(64) EncodedMap {
  std::array<std::byte, tensorMapBytes> bytes;
};

class TensorMaps {
public:
  explicit TensorMaps(const DriverApi &api) : api(api) {}
  /// The map of the buffer at `address`; valid until the next call.
  Expected<const EncodedMap *> find(const TensorMapSpec &spec, std::span<const int64_t> shape, CuPointer address);

private:
  using Key = std::tuple<CuPointer, DType, int64_t, std::vector<int64_t>, std::vector<int64_t>>;
  Expected<EncodedMap> encode(const TensorMapSpec &spec, std::span<const int64_t> shape, CuPointer address) const;

  const DriverApi &api;
  std::map<Key, EncodedMap> maps;
};

} // namespace minic::cuda
