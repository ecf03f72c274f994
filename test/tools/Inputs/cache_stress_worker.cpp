// One process of cache_stress.py: threads that compile graphs, run them and compare with arithmetic, all through the cache that the
// environment names. Results of the interpreter are compared; the fake driver computes nothing, but has cubins kept.
//
//     cacheStress THREADS TASKS SEED     each thread does TASKS tasks: a graph, a device, and seldom `refresh`, drawn by chance
//     cacheStress all on|must-hit        every graph once on every device
//
// Exit codes: 0 all is right, 1 something is not, with a line that says what; a notice of the cache is wrong too.
#include <minic/minic.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

using namespace minic;

namespace {

constexpr int graphs = 12;
const std::vector<std::vector<float>> rows = {{1, 2, 3}, {-4, 5, 60}};

/// Graph i scales by i and sums rows, adds i and takes what is positive, or multiplies by a matrix of i.
std::string textOf(int i) {
  std::string k = std::to_string(i), name = "@g" + k, x = "(%x: tensor<MxNxf32>)";
  switch (i % 3) {
  case 0:
    return "graph " + name + x + " -> (y: tensor<Mxf32>) {\n  %k = constant " + k +
           ".0 : tensor<MxNxf32>\n  %p = mul %x, %k : tensor<MxNxf32>\n  %y = reduce sum %p, axes = [1] : tensor<Mxf32>\n"
           "  return %y\n}\n";
  case 1:
    return "graph " + name + x + " -> (y: tensor<MxNxf32>) {\n  %k = constant " + k +
           ".0 : tensor<MxNxf32>\n  %p = add %x, %k : tensor<MxNxf32>\n  %y = relu %p : tensor<MxNxf32>\n  return %y\n}\n";
  default:
    return "graph " + name + x + " -> (y: tensor<Mx2xf32>) {\n  %k = constant " + k +
           ".0 : tensor<Nx2xf32>\n  %y = matmul %x, %k : tensor<Mx2xf32>\n  return %y\n}\n";
  }
}

std::vector<double> expectedOf(int i) {
  std::vector<double> values;
  for (const auto &row : rows) {
    double sum = 0;
    for (float x : row)
      sum += x;
    if (i % 3 == 1)
      for (float x : row)
        values.push_back(std::max(x + float(i), 0.0f));
    else
      values.insert(values.end(), size_t(i % 3 == 0 ? 1 : 2), sum * i);
  }
  return values;
}

std::atomic<bool> isWrong = false;
void complain(const std::string &what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  isWrong = true;
}

template <typename T> bool isFine(Expected<T> &value, const std::string &what) {
  if (!value)
    complain(what + ": " + renderDiagnostics(value.errors(), nullptr));
  return bool(value);
}

/// Compiles and runs graph `i`.
void runGraph(int i, const std::shared_ptr<Device> &device, const CacheUse &cache) {
  std::string what = "graph " + std::to_string(i) + " on " + device->name();
  CompileOptions options{.cache = cache};
  auto artifact = compile(SourceBuffer("g", textOf(i)), options, device.get());
  if (!isFine(artifact, what))
    return;
  auto executable = Executable::load(*artifact, device);
  if (!isFine(executable, what))
    return;
  HostTensor x(DType::F32, {int64_t(rows.size()), int64_t(rows[0].size())});
  for (size_t row = 0, at = 0; row < rows.size(); ++row)
    for (float value : rows[row])
      x.as<float>()[at++] = value;
  auto results = (*executable)->run(std::vector{x});
  if (!isFine(results, what) || device->name() != "cpu")
    return;
  std::vector<double> expected = expectedOf(i), given;
  for (int64_t at = 0; at < results->front().numElements(); ++at)
    given.push_back(results->front().get(at));
  if (given != expected)
    complain(what + " gave " + tensorText(results->front()));
}

} // namespace

int main(int count, char **words) {
  bool all = count == 3 && std::string_view(words[1]) == "all";
  if (count != 4 && !all)
    return 2;
  auto notice = [](const Diagnostic &what) { complain("the cache says: " + what.message); };
  auto cache = openCache(all ? words[2] : "on", {.notice = notice});
  if (!isFine(cache, "cache"))
    return 1;
  std::vector<std::shared_ptr<Device>> devices;
  for (const char *name : {"cpu", "cuda"}) {
    auto device = openDevice(name, *cache);
    if (!isFine(device, name))
      return 1;
    devices.push_back(*device);
  }
  if (all) {
    for (int i = 1; i <= graphs; ++i)
      for (const auto &device : devices)
        runGraph(i, device, *cache);
    return isWrong;
  }
  std::vector<std::thread> running;
  for (int thread = 0; thread < std::atoi(words[1]); ++thread)
    running.emplace_back([&, thread] {
      std::mt19937 drawn(unsigned(std::atoi(words[3]) * 1000 + thread));
      for (int task = 0; task < std::atoi(words[2]); ++task) {
        CacheUse use = *cache;
        use.policy = drawn() % 6 ? CachePolicy::Use : CachePolicy::Refresh;
        runGraph(int(drawn() % graphs) + 1, devices[drawn() % 3 ? 0 : 1], use);
      }
    });
  for (std::thread &thread : running)
    thread.join();
  return isWrong;
}
