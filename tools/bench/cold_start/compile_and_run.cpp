// A program with libminic: FOLDER/graph.ir is compiled, or taken from the cache, and run.
//
//     compile_and_run FOLDER RESULT DEVICE CACHE
#include "first_result.h"

#include <minic/minic.h>

using namespace minic;

int main(int count, char **words) {
  Clock clock;
  if (count != 5)
    return 2;
  CompileOptions options{.cache = check(openCache(words[4]))};
  std::shared_ptr<Device> device = check(openDevice(words[3], options.cache));
  clock.mark("open");
  auto artifact = check(compile(check(readSource(std::string(words[1]) + "/graph.ir")), options, device.get()));
  clock.mark("compile");
  auto executable = check(Executable::load(artifact, device));
  firstResult(*executable, words[1], words[2], clock);
}
