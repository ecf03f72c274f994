// What `minic cache` shows and does.
#include "CacheTest.h"

#include "minic/Cache/NearestEntry.h"

namespace minic {
namespace {

using namespace std::chrono_literals;

using ReportTest = CacheTest;

TEST_F(ReportTest, ListHasTheLastUsedFirst) {
  auto store = open();
  auto now = Clock::from_time_t(Clock::to_time_t(Clock::now()));
  store->put(key("a"), "value", "softmax for\nsm_90a\x7f" + std::string(300, '.'));
  CacheKey cubin("cubin");
  cubin.add("ptx", "mov");
  store->put(cubin, "ELF", "softmax__y");
  store->put(key("c"), "value");
  setTime(fileOf(key("a")), now - 60s);
  setTime(fileOf(cubin), now - 30s);
  setTime(fileOf(key("c")), now - 90s);
  auto bytes = readBytes(fileOf(key("c")));
  writeBytes(fileOf(key("c")), bytes.substr(0, bytes.size() - 1));
  setTime(fileOf(key("c")), now - 90s);

  auto list = store->list();
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0].name, cubin.name());
  EXPECT_EQ(list[0].kind, "cubin");
  EXPECT_EQ(list[0].description, "softmax__y");
  EXPECT_EQ(list[0].bytes, std::filesystem::file_size(fileOf(cubin)));
  EXPECT_EQ(list[0].lastUse, now - 30s);
  EXPECT_EQ(list[0].state, CacheEntry::Readable);
  EXPECT_EQ(list[1].kind, "artifact");
  EXPECT_EQ(list[1].description.substr(0, 20), "softmax for sm_90a .") << "one line, without control characters";
  EXPECT_EQ(list[1].description.size(), 200u);
  EXPECT_EQ(list[2].state, CacheEntry::Damaged);
  EXPECT_EQ(list[2].kind, "");
  EXPECT_EQ(files().size(), 3u) << "a list removes nothing";
}

TEST_F(ReportTest, InfoCountsWhatIsThere) {
  auto store = open(options(12345));
  store->put(key("a"), "value");
  store->put(key("b"), "value");
  CacheInfo info = store->info();
  EXPECT_EQ(info.directory, directory.string());
  EXPECT_EQ(info.entries, 2u);
  EXPECT_EQ(info.bytes, bytesOfAll());
  EXPECT_EQ(info.limit, 12345u);
  EXPECT_TRUE(info.writable);
}

TEST_F(ReportTest, VerifyRemovesWhatIsDamaged) {
  auto store = open();
  for (const char *ir : {"a", "b", "c", "d"})
    store->put(key(ir), std::string("value of ") + ir);
  auto damage = [&](const char *ir, size_t fromEnd) {
    auto bytes = readBytes(fileOf(key(ir)));
    bytes[bytes.size() - fromEnd] ^= 1;
    writeBytes(fileOf(key(ir)), bytes);
  };
  damage("b", 17); // The value, which the checksum of the key does not see.
  damage("c", 50);
  CacheCheck check = store->verify();
  EXPECT_EQ(check.good, 2u);
  std::vector<std::string> names = {key("b").name(), key("c").name()};
  std::ranges::sort(names);
  ASSERT_EQ(check.damaged.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(check.damaged[i].name, names[i]);
    EXPECT_TRUE(check.damaged[i].removed);
    EXPECT_NE(check.damaged[i].why.find("checksum"), std::string::npos) << check.damaged[i].why;
  }
  EXPECT_EQ(files().size(), 2u);
  check = store->verify();
  EXPECT_EQ(check.good, 2u);
  EXPECT_TRUE(check.damaged.empty());
}

TEST_F(ReportTest, ClearRemovesWhatCachesMade) {
  auto store = open();
  store->put(key("a"), "value");
  store->put(key("b"), "value");
  writeBytes(directory / (key("a").name() + ".0123456789abcdef.part"), "half");
  writeBytes(directory / "mine.txt", "text");
  uint64_t bytes = bytesOfAll() - 4;
  auto cleared = store->clear();
  ASSERT_TRUE(cleared);
  EXPECT_EQ(cleared->entries, 2u);
  EXPECT_EQ(cleared->bytes, bytes);
  EXPECT_EQ(files(), std::vector<std::string>{"mine.txt"});
  EXPECT_FALSE(store->get(key("a")));
  EXPECT_TRUE(store->put(key("a"), "value"));
}

TEST_F(ReportTest, WhyNamesTheFieldsThatDiffer) {
  auto store = open();
  CacheKey a = key("graph @g {\n  %a = add\n  return\n}\n", "sm_80"), b = key("graph @g {\n  %a = sub\n  return\n}\n", "sm_90a");
  a.add("llvm", "22.1.0").add("old", "1");
  b.add("llvm", "22.1.0").add("new", "2");
  store->put(a, "value");
  store->put(b, "value");
  auto difference = store->why(a.name().substr(0, 8), b.name());
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->nameA, a.name());
  EXPECT_EQ(difference->nameB, b.name());
  ASSERT_EQ(difference->fields.size(), 4u);
  EXPECT_EQ(difference->fields[0].name, "ir");
  EXPECT_EQ(difference->fields[0].line, 2u);
  EXPECT_EQ(difference->fields[0].a, "  %a = add");
  EXPECT_EQ(difference->fields[0].b, "  %a = sub");
  EXPECT_EQ(describe(*difference), "ir, line 2: `  %a = add` | `  %a = sub`\n"
                                   "target: `sm_80` | `sm_90a`\n"
                                   "old: `1` | no such field\n"
                                   "new: no such field | `2`\n");
  difference = store->why(a.name(), a.name());
  ASSERT_TRUE(difference);
  EXPECT_TRUE(difference->fields.empty());
}

TEST_F(ReportTest, WhySaysWhereLongTextsPart) {
  auto store = open();
  std::string same(500, '.');
  CacheKey a = key(same + "1" + same), b = key(same + "2" + same), c = key(same + "1" + same + "\nmore");
  for (const CacheKey &each : {a, b, c})
    store->put(each, "value");
  auto difference = store->why(a.name(), b.name());
  ASSERT_TRUE(difference);
  std::string before(20, '.'), after(59, '.');
  EXPECT_EQ(describe(*difference), "ir: `..." + before + "1" + after + "...` | `..." + before + "2" + after + "...`\n");
  difference = store->why(a.name(), c.name());
  ASSERT_TRUE(difference);
  EXPECT_EQ(describe(*difference), "ir, line 2: no such line | `more`\n");
}

TEST_F(ReportTest, NearestIsTheOneWithTheMostEqualFields) {
  auto store = open();
  CacheKey wanted = key("graph @g", "sm_90a"), otherTarget = key("graph @g", "sm_80"), allOther = key("graph @h", "sm_80");
  EXPECT_FALSE(nearestEntry(*store, wanted));
  CacheKey cubin("cubin"); // Equal but for the kind.
  cubin.add("ir", "graph @g").add("target", "sm_90a");
  store->put(cubin, "value");
  EXPECT_FALSE(nearestEntry(*store, wanted));
  store->put(allOther, "value", "all other");
  store->put(otherTarget, "value", "other target");
  setTime(fileOf(otherTarget), Clock::now() - std::chrono::hours(5)); // Nearer, though it was used earlier.
  auto nearest = nearestEntry(*store, wanted);
  ASSERT_TRUE(nearest);
  EXPECT_EQ(nearest->description, "other target");
  EXPECT_EQ(nearest->difference.nameA, wanted.name());
  EXPECT_EQ(nearest->difference.nameB, otherTarget.name());
  EXPECT_EQ(describe(nearest->difference), "target: `sm_90a` | `sm_80`\n");

  CacheKey another = key("graph @g", "sm_100"); // As near: the one used last.
  store->put(another, "value", "another target");
  EXPECT_EQ(nearestEntry(*store, wanted)->description, "another target");
  store->put(wanted, "value", "itself");
  EXPECT_TRUE(nearestEntry(*store, wanted)->difference.fields.empty());
  std::filesystem::resize_file(fileOf(wanted), 50);
  EXPECT_EQ(nearestEntry(*store, wanted)->description, "another target"); // What is damaged is not near.
  EXPECT_EQ(store->info().hits + store->info().misses, 0u);
}

TEST_F(ReportTest, WhyAnswersNamesThatItDoesNotKnow) {
  CacheOptions named = options();
  named.hooks.nameOf = [](std::string_view key) { return std::string(31, '0') + key.back(); };
  auto store = open(std::move(named));
  store->put(CacheKey("1"), "value");
  store->put(CacheKey("2"), "value");
  auto error = [&](std::string_view a, std::string_view b) {
    auto difference = store->why(a, b);
    return difference ? "" : renderDiagnostics(difference.errors(), nullptr);
  };
  std::string zeros(31, '0');
  EXPECT_EQ(error("7", zeros + "1"), "error: no entry of the cache has a name that begins with `7` [E1102]\n"
                                     "fix: `minic cache list` names them\n");
  EXPECT_EQ(error(zeros + "1", "000"), "error: 2 entries of the cache have names that begin with `000`, such as " + zeros +
                                           "1 and " + zeros + "2 [E1102]\nfix: give more digits\n");
  EXPECT_NE(error("", zeros + "1").find("2 entries"), std::string::npos);
  writeBytes(directory / (zeros + "2.entry"), "text");
  EXPECT_NE(error(zeros + "1", zeros + "2").find("is damaged: it does not begin as entries do [E0909]"), std::string::npos);
}

} // namespace
} // namespace minic
