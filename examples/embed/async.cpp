// Softmax without waiting: work is enqueued on streams, an event orders two of them, and a run that was captured is launched again
// by one call. Prints the rows and their sums after three rounds, `p = [[0.25, 0.75], [0.5, 0.5]]` and `s = [1, 1]`.
#include "check.h"

int main() {
  Graph softmaxGraph("softmax"), sumGraph("row_sum");
  softmaxGraph.output("p", softmax(softmaxGraph.input("x", DType::F32, {"M", "N"})));
  sumGraph.output("s", sum(sumGraph.input("p", DType::F32, {"M", "N"}), 1));

  std::shared_ptr<Device> device = check(openDevice("auto"));
  auto rows = check(Executable::load(check(compile(softmaxGraph, {}, device.get())), device));
  auto sums = check(Executable::load(check(compile(sumGraph, {}, device.get())), device));

  auto first = check(Stream::create(device)), second = check(Stream::create(device));
  auto x = check(Buffer::upload(first, check(parseTensorText("[[0, 1.0986123], [7, 7]]", DType::F32)))); // 1.0986123 is log 3.
  auto p = check(Buffer::allocate(first, DType::F32, {2, 2}));
  auto s = check(Buffer::allocate(second, DType::F32, {2}));

  // The tensors of a captured run are fixed; what they hold is not.
  TensorView xs[] = {x.view()}, ps[] = {p.view()}, ss[] = {s.view()};
  auto captured = check(rows->capture(xs, ps));
  auto start = check(Event::create(device)), ready = check(Event::create(device)), done = check(Event::create(device));
  check(start->record(*first));
  for (int round = 0; round < 3; ++round) {
    check(captured.launch(*first));
    check(ready->record(*first));
    check(ready->hold(*second)); // The second stream waits; this thread does not.
    check(sums->run(*second, ps, ss));
    check(done->record(*second));
    check(done->hold(*first)); // The next round overwrites what the sums read.
  }
  check(second->synchronize());
  std::cout << "p = " << tensorText(check(p.download())) << "\n"
            << "s = " << tensorText(check(s.download())) << "\n";
  std::cerr << device->name() << ": " << check(done->msSince(*start)) << " ms\n";
}
