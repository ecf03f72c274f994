// What tests on a GPU share: a kernel as PTX and an artifact of it.
#pragma once

#include "minic/Artifact/RunPlan.h"
#include "minic/Runtime/CudaDevice.h"
#include "minic/Runtime/Executable.h"

#include <gtest/gtest.h>

namespace minic::test {

/// y[i] = x[i] + x[i] for i < n, 32 threads per CTA; `bad` stores far outside any buffer.
inline std::string doubleKernel(const std::string &name, bool bad = false) {
  return ".version 7.0\n.target sm_80\n.address_size 64\n"
         ".visible .entry " +
         name +
         "(.param .u64 x, .param .u64 y, .param .u32 n) {\n"
         "  .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f; .reg .b64 %d<5>;\n"
         "  ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y]; ld.param.u32 %r0, [n];\n"
         "  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mad.lo.s32 %r3, %r1, 32, %r2;\n"
         "  setp.ge.s32 %p, %r3, %r0; @%p ret;\n"
         "  mul.wide.s32 %d2, %r3, 4; add.s64 %d3, %d0, %d2; add.s64 %d4, %d1, %d2;\n" +
         std::string(bad ? "  mov.u64 %d4, 64;\n" : "") +
         "  ld.global.f32 %f, [%d3]; add.f32 %f, %f, %f; st.global.f32 [%d4], %f; ret;\n}\n";
}

inline const DimExpr n = DimExpr::name("N");

inline Artifact doubling(std::string ptx, std::string name = "twice") {
  Artifact artifact;
  artifact.target = "sm_80";
  artifact.kernels = {
      {.name = name, .ptx = std::move(ptx), .params = std::vector<KernelParam>(2), .dims = {DimExpr::name("N")}, .threads = 32}};
  Plan &plan = artifact.plans.emplace_back();
  plan.name = name;
  plan.inputs = {{"x", DType::F32, {n}}};
  plan.results = {{"y", DType::F32, {n}}};
  plan.buffers = {{{"x", DType::F32, {n}}}, {{"y", DType::F32, {n}}}};
  plan.steps = {{.kind = PlanStep::Kind::Alloc, .result = 1},
                {.kind = PlanStep::Kind::Launch, .operands = {0, 1}, .kernel = 0, .grid = {DimExpr::ceilDiv(n, 32)}}};
  plan.resultBuffers = {1};
  return artifact;
}

inline HostTensor iota(int64_t size) {
  HostTensor tensor(DType::F32, {size});
  fillIota(tensor);
  return tensor;
}

/// Opens the device where there is one; a fault makes a context unusable, so such tests run in a child.
class Cuda : public testing::Test {
protected:
  void SetUp() override {
    std::string why;
    if (!cudaAvailable(why))
      GTEST_SKIP() << why;
    auto opened = Client::open();
    ASSERT_TRUE(opened) << opened.errors().front().message;
    client = std::move(*opened);
    auto first = client->device(0);
    ASSERT_TRUE(first) << first.errors().front().message;
    device = std::move(*first);
  }
  Expected<std::vector<HostTensor>> run(const Artifact &artifact, int64_t size) {
    std::vector<HostTensor> inputs;
    inputs.push_back(iota(size));
    return runPlan(artifact, *device, inputs, {});
  }
  std::shared_ptr<Client> client;
  std::shared_ptr<CudaDevice> device;
};

} // namespace minic::test
