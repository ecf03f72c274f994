// Executables on a device of host memory: what is checked, what is kept, what threads share. No GPU is needed.
#include "minic/Runtime/Executable.h"

#include "../Artifact/FakeDevice.h"

#include <thread>

using namespace minic;
using minic::test::FakeDevice;
using Kind = PlanStep::Kind;

namespace {

const DimExpr n = DimExpr::name("N");

TensorSpec spec(std::string name) { return {name, DType::F32, {n}}; }

/// y = x * w + 1 through a temporary t = x * w; the 1 is a constant of the plan.
std::shared_ptr<const Artifact> scale() {
  Artifact artifact;
  artifact.kernels = {{.name = "mul", .params = std::vector<KernelParam>(3), .dims = {DimExpr::name("N")}, .threads = 32},
                      {.name = "add", .params = std::vector<KernelParam>(3), .dims = {DimExpr::name("N")}, .threads = 32}};
  float one = 1;
  auto *bytes = reinterpret_cast<const std::byte *>(&one);
  Plan &plan = artifact.plans.emplace_back();
  plan.name = "scale";
  plan.inputs = {spec("x"), spec("w")};
  plan.results = {spec("y")};
  plan.buffers = {{spec("x")}, {spec("w")}, {{"one", DType::F32, {1}}}, {spec("t")}, {spec("y")}};
  artifact.constants = {{bytes, bytes + 4}};
  plan.steps = {{.kind = Kind::Constant, .result = 2, .constant = 0},
                {.kind = Kind::Alloc, .result = 3},
                {.kind = Kind::Launch, .operands = {0, 1, 3}, .kernel = 0, .grid = {n}},
                {.kind = Kind::Alloc, .result = 4},
                {.kind = Kind::Launch, .operands = {3, 2, 4}, .kernel = 1, .grid = {n}}};
  plan.resultBuffers = {4};
  return std::make_shared<const Artifact>(std::move(artifact));
}

void scaleKernels(FakeDevice &, const FakeDevice::Launch &launch) {
  float *a = FakeDevice::floats(launch.buffers[0]), *b = FakeDevice::floats(launch.buffers[1]);
  float *out = FakeDevice::floats(launch.buffers[2]);
  for (int64_t i = 0; i < launch.dims.at("N"); ++i)
    out[i] = launch.kernel == 0 ? a[i] * b[i] : a[i] + b[0];
}

HostTensor numbers(int64_t count, float first) {
  HostTensor tensor(DType::F32, {count});
  for (int64_t i = 0; i < count; ++i)
    tensor.as<float>()[i] = first + float(i);
  return tensor;
}

class Executables : public testing::Test {
protected:
  void SetUp() override {
    device->kernel = scaleKernels;
    device->addressable = true;
  }
  std::shared_ptr<Executable> load(const std::map<std::string, HostTensor> &weights = {}) {
    auto executable = Executable::load(scale(), device, weights);
    EXPECT_TRUE(executable) << executable.errors().front().message;
    return *executable;
  }
  Diagnostic refused(const std::vector<TensorView> &inputs, const std::vector<TensorView> &results) {
    auto done = load()->run(*Stream::borrow(device, nullptr), inputs, results);
    EXPECT_FALSE(done);
    EXPECT_TRUE(device->launches.empty());
    return done ? Diagnostic{.code = ErrorCode::BadFlag, .message = "no error"} : done.errors().front();
  }
  std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
};

TEST_F(Executables, RunFromHostToHost) {
  auto executable = load();
  std::vector<HostTensor> inputs = {numbers(4, 1), numbers(4, 10)};
  auto results = executable->run(inputs);
  ASSERT_TRUE(results) << results.errors().front().message;
  EXPECT_EQ(tensorText((*results)[0]), "[11, 23, 37, 53]");
  EXPECT_EQ(device->live.size(), 1u); // The constant.
  executable.reset();
  EXPECT_TRUE(device->live.empty());
}

TEST_F(Executables, WeightsAreBoundOnce) {
  auto executable = load({{"w", numbers(4, 10)}});
  ASSERT_EQ(executable->inputs().size(), 1u);
  EXPECT_EQ(executable->inputs()[0].name, "x");
  int uploads = device->uploads;
  for (float first : {1.0f, 2.0f}) {
    std::vector<HostTensor> inputs = {numbers(4, first)};
    auto results = executable->run(inputs);
    ASSERT_TRUE(results);
    EXPECT_EQ(results->front().get(0), first * 10 + 1);
  }
  EXPECT_EQ(device->uploads, uploads + 2);
  // Its size binds N like any input's.
  std::vector<HostTensor> longer = {numbers(5, 1)};
  auto results = executable->run(longer);
  ASSERT_FALSE(results);
  EXPECT_EQ(results.errors().front().message, "input 'w' has shape 4xf32, expected 5xf32");
  int finished = device->finished;
  executable.reset();
  EXPECT_GT(device->finished, finished); // Work on any stream may still read it.
  EXPECT_TRUE(device->live.empty());
}

TEST_F(Executables, WeightsThatDoNotFit) {
  auto message = [&](const std::map<std::string, HostTensor> &weights) {
    auto executable = Executable::load(scale(), device, weights);
    EXPECT_FALSE(executable);
    return executable ? "" : executable.errors().front().message + "; " + executable.errors().front().fix;
  };
  EXPECT_EQ(message({{"w", HostTensor(DType::F64, {4})}}), "weight 'w' has shape 4xf64, expected Nxf32; ");
  EXPECT_EQ(message({{"w", HostTensor(DType::F32, {4, 4})}}), "weight 'w' has shape 4x4xf32, expected Nxf32; ");
  EXPECT_EQ(message({{"ww", HostTensor(DType::F32, {4})}}), "'scale' has no input 'ww' to bind a weight to; did you mean w?");
  EXPECT_TRUE(device->live.empty());
}

TEST_F(Executables, PreparedOncePerShape) {
  auto executable = load();
  auto run = [&](int64_t size) {
    std::vector<HostTensor> inputs = {numbers(size, 1), numbers(size, 1)};
    EXPECT_TRUE(executable->run(inputs));
  };
  run(4);
  EXPECT_EQ(device->prepared, 2);
  run(4);
  EXPECT_EQ(device->prepared, 2);
  run(5);
  run(4);
  EXPECT_EQ(device->prepared, 4);
  for (int64_t size = 10; size < 74; ++size)
    run(size);
  EXPECT_EQ(device->prepared, 4 + 2 * 64);
  run(5); // Pushed out by 64 others.
  EXPECT_EQ(device->prepared, 4 + 2 * 65);
}

TEST_F(Executables, ShapesAreCountedAndLimited) {
  auto executable = load();
  auto run = [&](int64_t size) {
    std::vector<HostTensor> inputs = {numbers(size, 1), numbers(size, 1)};
    EXPECT_TRUE(executable->run(inputs));
  };
  auto expect = [&](uint64_t misses, uint64_t evictions, uint64_t kept, uint64_t limit) {
    ShapeCounts counts = executable->shapeCounts();
    EXPECT_EQ(counts.misses, misses);
    EXPECT_EQ(counts.evictions, evictions);
    EXPECT_EQ(counts.compilations, 0u);
    EXPECT_EQ(counts.kept, kept);
    EXPECT_EQ(counts.limit, limit);
  };
  expect(0, 0, 0, 64);
  for (int64_t size : {1, 2, 3, 1})
    run(size);
  expect(3, 0, 3, 64);
  EXPECT_GE(executable->shapeCounts().hits, 1u);
  executable->limitShapes(2); // 2 was used longest ago.
  expect(3, 1, 2, 2);
  run(3);
  run(1);
  expect(3, 1, 2, 2);
  run(2); // 3 goes.
  expect(4, 2, 2, 2);
  run(1);
  expect(4, 2, 2, 2);
  executable->limitShapes(0);
  expect(4, 3, 1, 1);
  run(1);
  expect(4, 3, 1, 1);
}

/// `scale` for one size alone: its launches know no names.
std::shared_ptr<const Artifact> scaleOf(int64_t size) {
  Artifact artifact = *scale();
  for (KernelCode &kernel : artifact.kernels)
    kernel.dims = {};
  Plan &plan = artifact.plans[0];
  auto bind = [&](TensorSpec &spec) {
    for (DimExpr &dim : spec.shape)
      dim = dim.isConstant() ? dim : DimExpr(size);
  };
  for (auto *specs : {&plan.inputs, &plan.results})
    for (TensorSpec &spec : *specs)
      bind(spec);
  for (PlanBuffer &buffer : plan.buffers)
    bind(buffer.spec);
  for (PlanStep &step : plan.steps)
    for (DimExpr &dim : step.grid)
      dim = DimExpr(size);
  return std::make_shared<const Artifact>(std::move(artifact));
}

class Specialized : public Executables {
protected:
  void SetUp() override {
    Executables::SetUp();
    device->kernel = [](FakeDevice &, const FakeDevice::Launch &launch) { // Its grid is the size.
      float *a = FakeDevice::floats(launch.buffers[0]), *b = FakeDevice::floats(launch.buffers[1]);
      float *out = FakeDevice::floats(launch.buffers[2]);
      for (int64_t i = 0; i < launch.grid[0]; ++i)
        out[i] = launch.kernel == 0 ? a[i] * b[i] : a[i] + b[0];
    };
    executable = load();
    executable->specialize([this](std::span<const TensorView> inputs) -> Expected<std::shared_ptr<const Artifact>> {
      std::lock_guard lock(mutex);
      int64_t size = inputs[0].shape[0];
      compiled.push_back(size);
      if (size == 13)
        return Diagnostic{.code = ErrorCode::PassFailed, .message = "no code for 13"};
      auto made = scaleOf(size);
      artifacts[size] = made;
      return made;
    });
  }
  Expected<std::vector<HostTensor>> run(int64_t size) {
    std::vector<HostTensor> inputs = {numbers(size, 1), numbers(size, 2)};
    auto results = executable->run(inputs);
    for (int64_t i = 0; results && i < size; ++i)
      EXPECT_EQ((*results)[0].as<float>()[i], float(i + 1) * float(i + 2) + 1);
    return results;
  }
  std::shared_ptr<Executable> executable;
  std::mutex mutex;
  std::vector<int64_t> compiled;
  std::map<int64_t, std::weak_ptr<const Artifact>> artifacts;
};

TEST_F(Specialized, EachShapeIsCompiledOnce) {
  for (int64_t size : {4, 5, 4, 0, 1, 5})
    EXPECT_TRUE(run(size));
  EXPECT_EQ(compiled, (std::vector<int64_t>{4, 5, 0, 1}));
  EXPECT_EQ(executable->shapeCounts().compilations, 4u);
  EXPECT_TRUE(std::ranges::all_of(device->launches, [](const auto &launch) { return launch.dims.empty(); })); // Their own code.
  executable->limitShapes(1);
  EXPECT_TRUE(run(4)); // It was pushed out, so it is compiled again.
  EXPECT_EQ(compiled.size(), 5u);
  EXPECT_EQ(executable->shapeCounts().evictions, 4u);
  executable->specialize(nullptr);
  EXPECT_TRUE(run(6));
  EXPECT_EQ(compiled.size(), 5u);
}

TEST_F(Specialized, NewShapesCanBeForbidden) {
  for (int64_t size = 1; size <= 9; ++size)
    EXPECT_TRUE(run(size));
  executable->allowCompilation(false);
  EXPECT_TRUE(run(5));
  auto refused = run(781);
  ASSERT_FALSE(refused);
  const Diagnostic &error = refused.errors().front();
  EXPECT_EQ(error.code, ErrorCode::NotCached);
  EXPECT_EQ(error.message, "'scale' has no code for N = 781, and nothing may be compiled for a new shape");
  ASSERT_EQ(error.notes.size(), 9u);
  EXPECT_EQ(error.notes.front().message, "it has code for N = 1");
  EXPECT_EQ(error.notes.back().message, "and for 1 more");
  EXPECT_NE(error.fix.find("allow compilation"), std::string::npos);
  EXPECT_EQ(compiled.size(), 9u);
  executable->allowCompilation(true);
  EXPECT_TRUE(run(781));
}

TEST_F(Specialized, WhatCannotBeCompiledIsSaidEachTime) {
  EXPECT_FALSE(run(13));
  auto again = run(13);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.errors().front().message, "no code for 13");
  EXPECT_EQ(executable->shapeCounts().kept, 0u);
  EXPECT_TRUE(run(12));
}

TEST_F(Specialized, CapturedRunsOutliveTheirShape) {
  std::vector<Buffer> buffers;
  auto stream = Stream::borrow(device, nullptr);
  std::vector<TensorView> views;
  for (int i = 0; i < 3; ++i) {
    auto buffer = i < 2 ? Buffer::upload(stream, numbers(3, float(i + 1))) : Buffer::allocate(stream, DType::F32, {3});
    ASSERT_TRUE(buffer);
    buffers.push_back(std::move(*buffer));
  }
  for (const Buffer &buffer : buffers)
    views.push_back(buffer.view());
  auto captured = executable->capture(std::span(views).first(2), std::span(views).subspan(2));
  ASSERT_TRUE(captured);
  executable->limitShapes(1);
  EXPECT_TRUE(run(8)); // The captured shape is forgotten, its code is not.
  EXPECT_FALSE(artifacts[3].expired());
  ASSERT_TRUE(captured->launch(*stream));
  auto y = buffers[2].download();
  ASSERT_TRUE(y);
  EXPECT_EQ(y->as<float>()[2], 3.0f * 4 + 1);
  captured = CapturedRun();
  EXPECT_TRUE(artifacts[3].expired());
}

TEST_F(Specialized, ThreadsCompileAShapeOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 40; ++i)
        EXPECT_TRUE(run(1 + (i + t) % 5));
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(compiled.size(), 5u);
  ShapeCounts counts = executable->shapeCounts();
  EXPECT_EQ(counts.misses, 5u);
  EXPECT_GE(counts.hits, 8u * 40 - 5);
}

TEST_F(Executables, TensorsThatDoNotFitAreNamed) {
  alignas(256) float x[8] = {}, w[8] = {}, y[8] = {};
  const int64_t four[] = {4}, five[] = {5}, two[] = {2, 2}, gap[] = {2};
  TensorView vx{DeviceMemory(x), DType::F32, four}, vw{DeviceMemory(w), DType::F32, four}, vy{DeviceMemory(y), DType::F32, four};
  EXPECT_EQ(refused({vx}, {vy}).message, "'scale' takes 2 inputs, given 1");
  EXPECT_EQ(refused({vx, vw}, {}).message, "'scale' gives 1 results, given 0");
  TensorView wrong = vw;
  wrong.shape = five;
  EXPECT_EQ(refused({vx, wrong}, {vy}).message, "input 'w' has shape 5xf32, expected 4xf32");
  wrong.shape = two;
  EXPECT_EQ(refused({vx, wrong}, {vy}).message, "input 'w' has shape 2x2xf32, expected 4xf32");
  wrong = vw;
  wrong.dtype = DType::F16;
  EXPECT_EQ(refused({vx, wrong}, {vy}).message, "input 'w' has shape 4xf16, expected 4xf32");
  wrong = vy;
  wrong.shape = five;
  EXPECT_EQ(refused({vx, vw}, {wrong}).message, "result 'y' has shape 5xf32, expected 4xf32");
  wrong = vx;
  wrong.strides = gap;
  EXPECT_EQ(refused({wrong, vw}, {vy}).message,
            "input 'x' has strides [2], expected [1] for shape 4xf32: it was compiled for row-major tensors alone");
  wrong = vx;
  wrong.memory += 4;
  Diagnostic misaligned = refused({wrong, vw}, {vy});
  EXPECT_NE(misaligned.message.find("which is not a multiple of 16 bytes"), std::string::npos) << misaligned.message;
  wrong = vw;
  wrong.memory = 0;
  EXPECT_EQ(refused({vx, wrong}, {vy}).message, "input 'w' has no memory (a null address)");
  wrong = vy;
  wrong.memory = vx.memory;
  EXPECT_EQ(refused({vx, vw}, {wrong}).message, "result 'y' overlaps input 'x'");
}

/// y = x for row-major tensors by kernel 0, and behind it for tensors of any strides by kernel 1.
std::shared_ptr<const Artifact> copyAnyStrides() {
  Artifact artifact;
  artifact.kernels = {{.name = "dense", .params = std::vector<KernelParam>(2), .dims = {DimExpr::name("N")}, .threads = 32},
                      {.name = "any", .params = {{"x", {}, 2}, {"y", {}, 2}}, .dims = {DimExpr::name("N")}, .threads = 32}};
  for (bool strided : {false, true}) {
    Plan &plan = artifact.plans.emplace_back();
    plan.name = "copy";
    plan.inputs = {{"x", DType::F32, {n, 3}, strided}};
    plan.results = {{"y", DType::F32, {n, 3}, strided}};
    plan.buffers = {{plan.inputs[0]}, {plan.results[0]}};
    plan.steps = {{.kind = Kind::Alloc, .result = 1}, {.kind = Kind::Launch, .operands = {0, 1}, .kernel = strided, .grid = {n}}};
    plan.resultBuffers = {1};
  }
  return std::make_shared<const Artifact>(std::move(artifact));
}

class StridedTensors : public Executables {
protected:
  void SetUp() override {
    Executables::SetUp();
    device->kernel = [](FakeDevice &, const FakeDevice::Launch &) {};
    executable = *Executable::load(copyAnyStrides(), device);
    memory = *device->allocate(1024, nullptr); // 256 floats.
  }
  TensorView at(int64_t element, const int64_t (&strides)[2], const int64_t (&shape)[2] = two) {
    return {memory + DeviceMemory(element * 4), DType::F32, shape, strides};
  }
  std::string run(const TensorView &x, const TensorView &y) {
    device->launches.clear();
    auto done = executable->run(*Stream::borrow(device, nullptr), std::vector{x}, std::vector{y});
    return done ? "" : done.errors().front().message;
  }
  std::vector<int64_t> stridesGiven() const {
    return device->launches.empty() ? std::vector<int64_t>{-1} : device->launches[0].strides;
  }
  static constexpr int64_t two[2] = {2, 3}, dense[2] = {3, 1};
  std::shared_ptr<Executable> executable;
  DeviceMemory memory = 0;
};

TEST_F(StridedTensors, GoToThePlanThatTakesThem) {
  const int64_t transposed[] = {1, 2}, padded[] = {8, 1}, repeated[] = {0, 1}, backwards[] = {-3, -1};
  using Strides = std::vector<int64_t>;
  EXPECT_EQ(run(at(0, dense), at(64, dense)), "");
  EXPECT_EQ(stridesGiven(), Strides{});
  EXPECT_EQ(device->launches[0].kernel, 0);
  EXPECT_EQ(run(at(0, transposed), at(64, dense)), "");
  EXPECT_EQ(stridesGiven(), (Strides{1, 2, 3, 1}));
  EXPECT_EQ(device->launches[0].kernel, 1);
  EXPECT_EQ(run(at(0, dense), at(64, padded)), "");
  EXPECT_EQ(stridesGiven(), (Strides{3, 1, 8, 1}));
  EXPECT_EQ(run(at(0, repeated), at(64, dense)), "");
  EXPECT_EQ(stridesGiven(), (Strides{0, 1, 3, 1}));
  EXPECT_EQ(run(at(5, backwards), at(64, dense)), "");
  EXPECT_EQ(stridesGiven(), (Strides{-3, -1, 3, 1}));
  // Row-major again, after the other plan was the last one used.
  EXPECT_EQ(run(at(0, dense), at(64, dense)), "");
  EXPECT_EQ(device->launches[0].kernel, 0);
  // Row-major, but not where 16 bytes may be read at once.
  EXPECT_EQ(run(at(1, dense), at(64, dense)), "");
  EXPECT_EQ(stridesGiven(), (Strides{3, 1, 3, 1}));
  EXPECT_EQ(run(at(0, dense), at(65, dense)), "");
  EXPECT_EQ(device->launches[0].kernel, 1);
  EXPECT_EQ(device->prepared, 6); // Two of the runs were like others.
}

TEST_F(StridedTensors, OutsideTheirMemoryAreRefused) {
  const int64_t wide[] = {300, 1}, backwards[] = {-3, 1}, huge[] = {int64_t(1) << 62, 1}, overflowing[] = {INT64_MAX, 1};
  EXPECT_EQ(run(at(0, wide), at(64, dense)),
            "input 'x' reaches outside its memory: its elements lie from byte 0 to byte 1212 of an allocation of 1024 bytes");
  EXPECT_NE(run(at(64, dense), at(250, dense, {4, 3})), ""); // Shapes differ.
  EXPECT_EQ(run(at(0, dense), at(251, dense)).substr(0, 37), "result 'y' reaches outside its memory");
  EXPECT_EQ(run(at(0, backwards), at(64, dense)).substr(0, 36), "input 'x' reaches outside its memory");
  EXPECT_EQ(run(at(0, huge), at(64, dense)), "input 'x' has strides that reach past the end of memory");
  EXPECT_EQ(run(at(0, overflowing), at(64, dense)), "input 'x' has strides that reach past the end of memory");
  TensorView half = at(0, dense);
  half.memory += 2;
  EXPECT_EQ(run(half, at(64, dense)), "input 'x' starts at an address that is no multiple of its element's 4 bytes");
  EXPECT_TRUE(device->launches.empty());
}

TEST_F(StridedTensors, ResultsThatOverlapAreRefused) {
  const int64_t repeated[] = {0, 1}, close[] = {2, 1}, columns[] = {6, 2}, rows[] = {6, 1};
  EXPECT_EQ(run(at(0, dense), at(64, repeated)), "result 'y' has elements that share memory: strides of 2 axes overlap");
  EXPECT_EQ(run(at(0, dense), at(64, close)), "result 'y' has elements that share memory: strides of 2 axes overlap");
  EXPECT_EQ(run(at(0, columns), at(2, columns)), "result 'y' overlaps input 'x'");
  EXPECT_EQ(run(at(0, rows), at(2, rows)), "result 'y' overlaps input 'x'");
  // Between the elements of another tensor there is room.
  EXPECT_EQ(run(at(0, columns), at(1, columns)), "");
  EXPECT_EQ(run(at(0, rows), at(3, rows)), "");
}

TEST_F(Executables, StreamsAndDevicesMustMatch) {
  auto executable = load();
  auto other = std::make_shared<FakeDevice>();
  alignas(256) float x[4] = {}, w[4] = {}, y[4] = {};
  const int64_t four[] = {4};
  const TensorView in[] = {{DeviceMemory(x), DType::F32, four}, {DeviceMemory(w), DType::F32, four}};
  const TensorView out[] = {{DeviceMemory(y), DType::F32, four}};
  auto done = executable->run(*Stream::borrow(other, nullptr), in, out);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.errors().front().code, ErrorCode::WrongDevice);
}

TEST_F(Executables, CapturedRunsHaveTheirOwnTemporaries) {
  auto executable = load();
  alignas(256) float x[4] = {1, 2, 3, 4}, w[4] = {1, 1, 1, 1}, y[4] = {};
  const int64_t four[] = {4};
  const TensorView in[] = {{DeviceMemory(x), DType::F32, four}, {DeviceMemory(w), DType::F32, four}};
  const TensorView out[] = {{DeviceMemory(y), DType::F32, four}};
  auto captured = executable->capture(in, out);
  ASSERT_TRUE(captured);
  EXPECT_EQ(y[0], 0); // Recorded, not run.
  int allocations = device->allocations;
  x[0] = 41;
  executable.reset(); // The captured run keeps what it needs.
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(captured->launch(*Stream::borrow(device, nullptr)));
  EXPECT_EQ(y[0], 42);
  EXPECT_EQ(device->allocations, allocations);
}

/// Threads with streams of their own run one executable with changing shapes.
TEST_F(Executables, ManyThreadsShareOne) {
  auto executable = load({});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::vector<std::shared_ptr<Stream>> streams;
      for (int s = 0; s < 4; ++s)
        streams.push_back(*Stream::create(device));
      for (int i = 0; i < 250; ++i) {
        int64_t size = 1 + (t * 7 + i) % 80; // More shapes than are kept.
        HostTensor x = numbers(size, float(t)), w = numbers(size, 2);
        auto bx = Buffer::upload(streams[size_t(i % 4)], x), bw = Buffer::upload(streams[size_t(i % 4)], w);
        const TensorView in[] = {bx->view(), bw->view()};
        auto results = executable->run(streams[size_t(i % 4)], in);
        auto y = results ? results->front().download() : results.takeErrors();
        for (int64_t k = 0; y && k < size; ++k)
          wrong += y->get(k) != (t + double(k)) * (2 + double(k)) + 1;
        wrong += !y;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(device->live.size(), 1u);
}

} // namespace
