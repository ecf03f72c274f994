// A program with libminic_runtime: runs FOLDER/graph.mnc.
//
//     run_artifact FOLDER RESULT DEVICE CACHE
#include "first_result.h"

#include <minic/Artifact/ArtifactFile.h>
#include <minic/Cache/CacheUse.h>
#include <minic/Runtime/CudaDevice.h>

using namespace minic;

int main(int count, char **words) {
  Clock clock;
  auto ordinal = count == 5 ? cudaOrdinal(words[3]) : std::nullopt;
  if (!ordinal)
    return 2;
  auto client = check(Client::open());
  std::shared_ptr<CudaDevice> device = check(client->device(*ordinal));
  device->useCache(check(openCache(words[4])));
  clock.mark("open");
  auto artifacts = check(readArtifacts(std::string(words[1]) + "/graph.mnc"));
  size_t which = check(pickArtifact(artifacts, device->computeCapability()));
  auto executable = check(Executable::load(std::make_shared<Artifact>(std::move(artifacts[which])), device));
  clock.mark("load");
  firstResult(*executable, words[1], words[2], clock);
}
