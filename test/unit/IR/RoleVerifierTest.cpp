// What the verifier says about roles: for each error a text that is right, and one change.
#include "MachineVerifierTest.h"

using namespace minic;
using namespace minic::test;
using enum ErrorCode;

namespace {

const std::string roles = R"(kernel @k() at machine, threads = 384 {
  %c0 = constant 0 : index
  role producer, warps = 4, regs = 24, active = thread {
    yield
  }
  role consumer, warps = 4, instances = 2, regs = 240 { ^(%who: index):
    barrier
    yield
  }
  return
})";

TEST(MachineVerifier, Roles) {
  Right right(roles);
  right.wrong("warps = 4, instances = 2", "warps = 33, instances = 2", BadAttribute,
              {"`role` has from 1 to 32 warps and instances, not 33 and 2"});
  right.wrong("instances = 2", "instances = 0", BadAttribute, {"`role` has from 1 to 32 warps and instances, not 4 and 0"});
  right.wrong("regs = 24,", "regs = 16,", BadAttribute, {"`role` has regs = 16, which is no multiple of 8 from 24 to 256"});
  right.wrong("regs = 240", "regs = 236", BadAttribute, {"`role` has regs = 236, which is no multiple of 8 from 24 to 256"});
  right.wrong("regs = 240", "regs = 264", BadAttribute, {"regs = 264", "no multiple of 8 from 24 to 256"});
  right.wrong("warps = 4, instances = 2", "warps = 3, instances = 2", BadAttribute,
              {"with `regs` has a multiple of 4 warps, not 3"});
  right.wrong("^(%who: index)", "^(%who: i1)", BadRegion,
              {"the region of `role` takes at most the number of the instance, an index"});
  right.wrong("^(%who: index)", "^(%who: index, %more: index)", BadRegion, {"at most the number of the instance"});
  right.wrong("barrier\n    yield", "barrier\n    yield %c0", BadRegion, {"the region of `role` yields nothing"});
  right.wrong("  return", "  barrier\n  return", BadStructure, {"only another role or `return` follows a role, not `barrier`"});
  right.wrong("threads = 384", "threads = 256", BadStructure,
              {"the roles of kernel @k have 384 threads together, but its header says threads = 256"});
  right.wrong("regs = 24, ", "", MissingAttribute, {"either every role has `regs` or none has"}, "add `regs`");
  right.wrong("regs = 24", "regs = 40", BadStructure,
              {"128 * 40 + 256 * 240 = 66560", "the CTA starts with 384 * 168 = 64512", "wait for the rest forever"},
              "lower `regs` of a role");
}

TEST(MachineVerifier, RolesWithRegistersStartAtAWarpgroup) {
  const std::string text =
      "kernel @k() at machine, threads = 320 {\n  role a, warps = 2 {\n    yield\n  }\n  role b, warps = 4 {\n    yield\n  }\n"
      "  role c, warps = 4 {\n    yield\n  }\n  return\n}\n";
  Right right(text);
  right.wrong("b, warps = 4", "b, warps = 4, regs = 24", BadAttribute,
              {"`regs` moves registers of 4 warps together, but this role starts at warp 2"});
}

TEST(MachineVerifier, OneFaultOfARoleIsOneError) {
  // What roles hold together is not asked where one of them is wrong by itself, and not of attributes that are not there.
  const std::string text = "kernel @k() at machine, threads = 64 {\n  role a, warps = 1 {\n    yield\n  }\n"
                           "  role b, warps = 1 {\n    barrier\n    yield\n  }\n  return\n}\n";
  Right right(text);
  right.wrong("a, warps = 1", "a, warps = 0", BadAttribute, {"from 1 to 32 warps and instances, not 0 and 1"});
  right.wrong("a, warps = 1", "a, warps = 9999999999999", BadAttribute, {"not 9999999999999 and 1"});
  right.wrong("a, warps = 1", "a, instances = 1", MissingAttribute, {"`role` needs `warps`"});
}

TEST(MachineVerifier, PlansReturnMemoryOfTheirOwn) {
  Right right("plan @p(%x: buffer<2xf32>) -> (y: buffer<2xf32>, z: buffer<2xf32>) {\n  %a = copy %x : buffer<2xf32>\n"
              "  %b = copy %x : buffer<2xf32>\n  return %a, %b\n}\n");
  right.wrong("return %a, %b", "return %a, %x", ReturnMismatch, {"gives %x, which is an input"}, "return a `copy` of it");
  right.wrong("return %a, %b", "return %a, %a", ReturnMismatch, {"gives %a twice"}, "return a `copy` of it");
}

TEST(MachineVerifier, WgmmaStartsAtAWarpgroup) {
  const std::string text =
      "kernel @k() at machine, threads = 256 {\n"
      "  %m = alloc_shared : smem<64x64xbf16, #swizzle128>\n  role a, warps = 4 {\n    yield\n  }\n"
      "  role b, warps = 4 {\n    %f = wgmma nn %m, %m : inflight<tile<64x64xf32, #layout<reg = [1:2@1, 0:2@8, "
      "1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>>>\n    %t = wgmma_wait %f, pending = 0 : tile<64x64xf32, "
      "#layout<reg = [1:2@1, 0:2@8, 1:8@8], lane = [1:4@2, 0:8@1], warp = [0:4@16]>>\n    yield\n  }\n"
      "  return\n}\n";
  accept(text);
  std::string shifted = replaced(replaced(text, "role a, warps = 4", "role a, warps = 2"), "threads = 256", "threads = 192");
  refuse(shifted, BadStructure, {"from a multiple of 4 on, but this role starts at warp 2"});
}

TEST(MachineVerifier, RolesStandAtTheTop) {
  Right right("kernel @k() at machine, threads = 64 {\n  role a, warps = 2 {\n    barrier\n    yield\n  }\n  return\n}\n");
  right.wrong("    barrier\n", "    role b, warps = 2 {\n      yield\n    }\n", BadStructure,
              {"`role` stands at the top level of a kernel, not inside another operation"});
}

TEST(MachineVerifier, FifteenBarriersForRoles) {
  auto text = [](int instances) {
    return "kernel @k() at machine, threads = " + std::to_string(32 * instances + 32) +
           " {\n  role a, warps = 1 {\n    yield\n  }\n" + "  role b, warps = 1, instances = " + std::to_string(instances) +
           " {\n    barrier\n    yield\n  }\n  return\n}\n";
  };
  accept(text(14));
  refuse(text(15), BadStructure, {"`barrier` in a role: there are 15 barriers for the instances of roles, not 16"});
  accept(replaced(text(15), "    barrier\n", ""));
}

/// A tile of one warp, in a role of one warp.
const std::string tileInRole = R"(#one = layout<reg = [], lane = [0:32@1], warp = []>
#two = layout<reg = [], lane = [_:32], warp = [_:2]>
kernel @k(%x: buffer<32xf32>) at machine, threads = 64 {
  %c0 = constant 0 : index
  %outside = constant 0.0 : tile<1xf32, #two>
  role a, warps = 1 {
    %v = constant 0.0 : tile<32xf32, #one>
    store %v, %x, %c0, mask = [], vec = 1
    yield
  }
  role b, warps = 1 {
    %i = add %c0, %c0 : index
    yield
  }
  return
})";

TEST(MachineVerifier, TilesStayInTheirRole) {
  Right right(tileInRole);
  right.wrong("store %v, %x", "%n = neg %outside : tile<1xf32, #two>\n    store %v, %x", BadLayout, {"2 warps"});
  right.wrong("store %v, %x", "store %outside, %x", BadStructure,
              {"%outside of `store` is a tile from outside the role, whose warps do not hold it"});
}

TEST(MachineVerifier, OneThreadHasNoTiles) {
  Right right(roles);
  right.wrong("active = thread {\n", "active = thread {\n    barrier\n", BadStructure,
              {"`barrier` needs all threads of the role, which says `active = thread`"});
  right.wrong("active = thread {\n",
              "active = thread {\n    %t = constant 0.0 : tile<32xf32, #layout<reg = [], lane = [0:32@1], warp = [_:4]>>\n",
              BadStructure, {"`constant` needs all threads of the role, which says `active = thread`"});
}

} // namespace
