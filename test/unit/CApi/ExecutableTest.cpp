// Compiling and running through the C interface: what comes out, and what is said of tensors that do not fit.
#include "CApiTest.h"

#include "minic/Support/HostTensor.h"
#include "minic/Support/Safetensors.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>

namespace {

/// A folder of its own for a test's files.
class Folder {
public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "minic-capi-XXXXXX").string();
    path = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator/(const char *name) const { return (path / name).string(); }

private:
  std::filesystem::path path;
};

const std::vector<int64_t> matrix = {2, 3}, row = {3};
const std::vector<float> xs = {1, 2, 3, -4, 0.5f, 8}, ws = {10, 100, -1}, ys = {20, 400, -6, -80, 100, -16};

TEST(CApi, Versions) {
  EXPECT_EQ(minic_api_version(), uint32_t(MINIC_API_VERSION));
  EXPECT_STREQ(minic_version(), "0.1.0");
  EXPECT_EQ(std::string(minic_llvm_version()).substr(0, 3), "22.");
}

TEST_F(OnCpu, Signature) {
  const MinicTensorSpec *specs;
  size_t count;
  ASSERT_FINE(minic_artifact_inputs(artifact, &specs, &count));
  ASSERT_EQ(count, 2u);
  EXPECT_STREQ(specs[0].name, "x");
  EXPECT_EQ(specs[0].dtype, MINIC_F32);
  ASSERT_EQ(specs[0].rank, 2);
  EXPECT_STREQ(specs[0].dims[0], "M");
  EXPECT_STREQ(specs[0].dims[1], "N");
  EXPECT_EQ(specs[0].sizes[1], -1);
  ASSERT_FINE(minic_executable_results(executable, &specs, &count));
  ASSERT_EQ(count, 1u);
  EXPECT_STREQ(specs[0].name, "y");

  MinicArtifactInfo info = {};
  info.struct_size = sizeof info;
  ASSERT_FINE(minic_artifact_info(artifact, &info));
  EXPECT_STREQ(info.graph, "scale");
  EXPECT_STREQ(info.targets, "sm_90a");
  EXPECT_STREQ(info.numerics, "default");
  EXPECT_EQ(info.launches, 1);
  EXPECT_STREQ(info.warnings, "");
}

TEST_F(OnCpu, FromHostToHost) {
  std::vector<float> got(6, NAN);
  MinicTensor inputs[] = {tensor(xs.data(), matrix), tensor(ws.data(), row)}, result = tensor(got.data(), matrix);
  int64_t dims[2] = {};
  ASSERT_FINE(minic_executable_result_dims(executable, inputs, 2, dims, 2));
  EXPECT_EQ(std::vector<int64_t>(dims, dims + 2), matrix);
  ASSERT_FINE(minic_executable_run_host(executable, inputs, 2, &result, 1));
  EXPECT_EQ(got, ys);
  EXPECT_ERROR(minic_executable_result_dims(executable, inputs, 2, dims, 1), "E1102", "argument 'dims' has no room for 2 numbers");
}

TEST_F(OnCpu, OnBuffers) {
  MinicBuffer *x = buffer(matrix, xs), *w = buffer(row, ws), *y = buffer(matrix);
  MinicTensor inputs[] = {view(x), view(w)}, result = view(y);
  MinicEvent *before, *after;
  ASSERT_FINE(minic_event_create(device, &before));
  ASSERT_FINE(minic_event_create(device, &after));
  ASSERT_FINE(minic_event_record(before, stream));
  ASSERT_FINE(minic_executable_run(executable, stream, inputs, 2, &result, 1));
  ASSERT_FINE(minic_event_record(after, stream));
  ASSERT_FINE(minic_stream_wait(stream, after));
  ASSERT_FINE(minic_event_synchronize(after));
  int done = 0;
  double elapsed = -1;
  ASSERT_FINE(minic_event_is_done(after, &done));
  ASSERT_FINE(minic_event_elapsed(before, after, &elapsed));
  EXPECT_EQ(done, 1);
  EXPECT_GE(elapsed, 0);
  ASSERT_FINE(minic_stream_synchronize(stream));
  EXPECT_EQ(read(y, 6), ys);

  // Recorded, then done again on what is in the buffers by then.
  MinicCapturedRun *run;
  ASSERT_FINE(minic_executable_capture(executable, inputs, 2, &result, 1, &run));
  const std::vector<float> ones(6, 1);
  ASSERT_FINE(minic_buffer_write(x, ones.data(), 24));
  EXPECT_EQ(read(y, 6), ys);
  ASSERT_FINE(minic_captured_run_launch(run, stream));
  EXPECT_EQ(read(y, 6), (std::vector<float>{20, 200, -2, 20, 200, -2}));
  EXPECT_ERROR(minic_buffer_write(x, ones.data(), 20), "E1102", "argument 'size' is 20, expected the buffer's 24 bytes");
  EXPECT_ERROR(minic_buffer_read(x, nullptr, 24), "E1102", "argument 'data' is NULL");
  EXPECT_FINE(minic_captured_run_destroy(run));
  for (MinicBuffer *one : {x, w, y})
    EXPECT_FINE(minic_buffer_destroy(one));
  EXPECT_FINE(minic_event_destroy(before));
  EXPECT_FINE(minic_event_destroy(after));
}

TEST_F(OnCpu, Strides) {
  const std::vector<int64_t> columns = {1, 2}, padded = {-4, 1};
  std::vector<float> turned(6), got(8, 7), expected(8, 7);
  for (size_t i = 0; i < 6; ++i)
    turned[i % 3 * 2 + i / 3] = xs[i];
  std::copy(ys.begin(), ys.begin() + 3, expected.begin() + 4);
  std::copy(ys.begin() + 3, ys.end(), expected.begin());
  MinicTensor inputs[] = {tensor(turned.data(), matrix), tensor(ws.data(), row)}, result = tensor(got.data() + 4, matrix);
  inputs[0].strides = columns.data();
  result.strides = padded.data(); // The rows from the last to the first, and a gap after each.
  ASSERT_FINE(minic_executable_run_host(executable, inputs, 2, &result, 1));
  EXPECT_EQ(got, expected);

  MinicBuffer *x = buffer({6}, turned), *w = buffer(row, ws), *y = buffer({8}, std::vector<float>(8, 7));
  inputs[0].memory = view(x).memory;
  inputs[1] = view(w);
  result.memory = view(y).memory + 16;
  ASSERT_FINE(minic_executable_run(executable, stream, inputs, 2, &result, 1));
  EXPECT_EQ(read(y, 8), expected);
  for (MinicBuffer *one : {x, w, y})
    EXPECT_FINE(minic_buffer_destroy(one));
}

/// Runs with one thing wrong, which has to be said with the tensor's name, on the host's and on the device's memory.
TEST_F(OnCpu, TensorsThatDoNotFit) {
  MinicBuffer *x = buffer(matrix, xs), *w = buffer(row, ws), *y = buffer(matrix);
  MinicTensor inputs[] = {view(x), view(w)}, result = view(y);
  auto run = [&] { return minic_executable_run(executable, stream, inputs, 2, &result, 1); };
  ASSERT_FINE(run());
  const std::vector<int64_t> tall = {3, 2}, flat = {6}, wide = {4}, negative = {2, -3}, far = {100, 1}, repeated = {0, 1};

  inputs[1].shape = wide.data();
  EXPECT_ERROR(run(), "E0602", "input 'w' has shape 4xf32, expected 3xf32");
  inputs[1] = view(w);
  inputs[0].shape = negative.data();
  EXPECT_ERROR(run(), "E0602", "input 'x' has shape 2x-3xf32");
  inputs[0].shape = flat.data();
  inputs[0].rank = 1;
  EXPECT_ERROR(run(), "E0602", "input 'x' has shape 6xf32, expected MxNxf32");
  inputs[0].rank = -1;
  EXPECT_ERROR(run(), "E0602", "input 'x' has a rank that is not in 0 to 64");
  inputs[0] = view(x);
  inputs[0].dtype = MINIC_F16;
  EXPECT_ERROR(run(), "E0602", "input 'x' has shape 2x3xf16, expected MxNxf32");
  inputs[0].dtype = 0;
  EXPECT_ERROR(run(), "E0602", "input 'x' has dtype 0, expected a MinicDType");
  inputs[0] = view(x);
  inputs[0].strides = far.data();
  EXPECT_ERROR(run(), "E0602",
               "input 'x' reaches outside its memory: its elements lie from byte 0 to byte 412 of an allocation of 24 bytes");
  inputs[0] = view(x);
  result.strides = repeated.data();
  EXPECT_ERROR(run(), "E0602", "result 'y' has elements that share memory");
  result = view(y);
  inputs[0] = view(x);
  inputs[0].device_kind = MINIC_DEVICE_CUDA;
  inputs[0].device_ordinal = 1;
  EXPECT_ERROR(run(), "E0906", "input 'x' lies on cuda:1, and the executable on cpu");
  inputs[0] = view(x);
  result.shape = tall.data();
  EXPECT_ERROR(run(), "E0602", "result 'y' has shape 3x2xf32, expected 2x3xf32");
  result = view(y);
  result.device_kind = 7;
  EXPECT_ERROR(run(), "E0906", "result 'y' lies on a device of kind 7");
  result = inputs[0];
  EXPECT_ERROR(run(), "E0602", "result 'y' overlaps input 'x'");
  result = view(y);
  EXPECT_ERROR(minic_executable_run(executable, stream, inputs, 1, &result, 1), "E0603", "'scale' takes 2 inputs, given 1");
  EXPECT_ERROR(minic_executable_run(executable, stream, inputs, 2, nullptr, 0), "E0603", "'scale' gives 1 results, given 0");
  inputs[0].shape = result.shape = matrix.data(); // Those of a buffer go with it.
  inputs[1].shape = row.data();
  for (MinicBuffer *one : {x, w, y})
    EXPECT_FINE(minic_buffer_destroy(one));
  EXPECT_ERROR(run(), "E0705", "the buffer 'x' of kernel"); // Memory that is gone is no memory of the interpreter's.
}

TEST_F(OnCpu, HostTensorsThatDoNotFit) {
  std::vector<float> got(6);
  MinicTensor inputs[] = {tensor(xs.data(), matrix), tensor(ws.data(), row)}, result = tensor(got.data(), matrix);
  auto run = [&] { return minic_executable_run_host(executable, inputs, 2, &result, 1); };
  const std::vector<int64_t> wide = {4};
  inputs[0] = tensor(nullptr, matrix);
  EXPECT_ERROR(run(), "E0602", "input 'x' has no memory");
  inputs[0] = tensor(xs.data(), matrix);
  inputs[0].device_kind = MINIC_DEVICE_CUDA;
  EXPECT_ERROR(run(), "E0906", "input 'x' lies on cuda:0, expected host memory");
  inputs[0] = tensor(xs.data(), matrix);
  inputs[1] = tensor(ws.data(), wide);
  EXPECT_ERROR(run(), "E0602", "input 'w' has shape 4xf32");
  inputs[1] = tensor(ws.data(), row);
  result.memory = 0;
  EXPECT_ERROR(run(), "E0602", "result 'y' has no memory");
  result = tensor(got.data(), matrix);
  EXPECT_FINE(run());
  EXPECT_EQ(got, ys);
}

TEST_F(OnCpu, HugeBuffers) {
  MinicBuffer *none;
  const int64_t overflow[] = {int64_t(1) << 40, int64_t(1) << 40}, huge[] = {int64_t(1) << 50}, negative[] = {-1};
  EXPECT_ERROR(minic_buffer_create(stream, MINIC_F32, 2, overflow, &none), "E0606", "too large");
  EXPECT_ERROR(minic_buffer_create(stream, MINIC_F32, 1, negative, &none), "E0606", "negative size");
  MinicError *error = minic_buffer_create(stream, MINIC_F32, 1, huge, &none);
  EXPECT_STREQ(minic_error_code(error), "E0905");
  EXPECT_EQ(minic_error_kind(error), MINIC_ERROR_ENVIRONMENT);
  minic_error_destroy(error);
}

TEST_F(OnCpu, Weights) {
  Folder folder;
  minic::HostTensor values(minic::DType::F32, row);
  std::memcpy(values.bytes().data(), ws.data(), 12);
  const std::string npy = folder / "w.npy", missing = folder / "none.npy", safe = folder / "all.safetensors";
  ASSERT_TRUE(minic::writeNpy(npy, values));
  // u64 length, the header, 12 bytes of w, 4 of a tensor that no input is named after.
  std::string header =
      R"({"w":{"dtype":"F32","shape":[3],"data_offsets":[0,12]},"z":{"dtype":"I32","shape":[1],"data_offsets":[12,16]}})";
  uint64_t length = header.size();
  std::ofstream(safe, std::ios::binary).write(reinterpret_cast<char *>(&length), 8)
      << header << std::string(reinterpret_cast<const char *>(ws.data()), 12) << std::string(4, '\0');

  MinicTensor inMemory = tensor(ws.data(), row);
  for (MinicWeight weight : {MinicWeight{"w", nullptr, &inMemory}, MinicWeight{"w", npy.c_str(), nullptr},
                             MinicWeight{"w", safe.c_str(), nullptr}, MinicWeight{nullptr, safe.c_str(), nullptr}}) {
    MinicExecutable *bound;
    ASSERT_FINE(minic_executable_load(artifact, device, &weight, 1, &bound));
    const MinicTensorSpec *specs;
    size_t count;
    ASSERT_FINE(minic_executable_inputs(bound, &specs, &count));
    ASSERT_EQ(count, 1u);
    EXPECT_STREQ(specs[0].name, "x");
    std::vector<float> got(6);
    MinicTensor input = tensor(xs.data(), matrix), result = tensor(got.data(), matrix);
    EXPECT_FINE(minic_executable_run_host(bound, &input, 1, &result, 1));
    EXPECT_EQ(got, ys);
    EXPECT_FINE(minic_executable_destroy(bound));
  }

  MinicExecutable *none;
  auto load = [&](MinicWeight weight) { return minic_executable_load(artifact, device, &weight, 1, &none); };
  EXPECT_ERROR(load({"w", missing.c_str(), nullptr}), "E0108", "none.npy");
  EXPECT_ERROR(load({"v", npy.c_str(), nullptr}), "E0604", "no input called 'v'");
  EXPECT_ERROR(load({"x", safe.c_str(), nullptr}), "E0604", "no tensor called 'x'");
  const std::string other = folder / "other.safetensors";
  std::ofstream(other, std::ios::binary) << std::string("\2\0\0\0\0\0\0\0{}", 10);
  EXPECT_ERROR(load({nullptr, other.c_str(), nullptr}), "E0604", "has no tensor that is called like an input of 'scale'");
  EXPECT_ERROR(load({nullptr, npy.c_str(), nullptr}), "E1102", "argument 'weights[0]' has no name");
  EXPECT_ERROR(load({"w", nullptr, nullptr}), "E1102", "argument 'weights[0]' has to have either a path or a tensor");
  EXPECT_ERROR(minic_executable_load(artifact, device, nullptr, 2, &none), "E1102", "argument 'weights' is NULL");
  MinicTensor wrong = tensor(xs.data(), matrix);
  EXPECT_ERROR(load({"w", nullptr, &wrong}), "E0602", "weight 'w' has shape 2x3xf32, expected Nxf32");
  EXPECT_EQ(none, nullptr);
}

TEST_F(OnCpu, ArtifactFiles) {
  Folder folder;
  const std::string path = folder / "scale.mnc";
  ASSERT_FINE(minic_artifact_save(artifact, path.c_str()));
  MinicArtifact *again;
  ASSERT_FINE(minic_artifact_read(path.c_str(), &again));
  MinicExecutable *loaded;
  ASSERT_FINE(minic_executable_load(again, device, nullptr, 0, &loaded));
  std::vector<float> got(6);
  MinicTensor inputs[] = {tensor(xs.data(), matrix), tensor(ws.data(), row)}, result = tensor(got.data(), matrix);
  EXPECT_FINE(minic_executable_run_host(loaded, inputs, 2, &result, 1));
  EXPECT_EQ(got, ys);
  EXPECT_FINE(minic_executable_destroy(loaded));
  EXPECT_FINE(minic_artifact_destroy(again));

  std::ifstream file(path, std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  ASSERT_FINE(minic_artifact_from_bytes(bytes.data(), bytes.size(), &again));
  EXPECT_FINE(minic_artifact_destroy(again));
  bytes[bytes.size() / 2] ^= 1;
  EXPECT_ERROR(minic_artifact_from_bytes(bytes.data(), bytes.size(), &again), "E0109", "");
  EXPECT_ERROR(minic_artifact_from_bytes("hello", 5, &again), "E0109", "");
  EXPECT_EQ(again, nullptr);
}

/// Two threads and more share an executable and its device.
TEST_F(OnCpu, ThreadsShareAnExecutable) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        const std::vector<int64_t> shape = {1 + t, 3};
        std::vector<float> x(size_t(3 + 3 * t), float(i)), y(x.size());
        MinicTensor inputs[] = {tensor(x.data(), shape), tensor(ws.data(), row)}, result = tensor(y.data(), shape);
        ASSERT_FINE(minic_executable_run_host(executable, inputs, 2, &result, 1));
        for (size_t j = 0; j < y.size(); ++j)
          ASSERT_EQ(y[j], 2 * float(i) * ws[j % 3]);
      }
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace
