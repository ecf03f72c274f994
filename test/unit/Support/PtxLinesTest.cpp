#include "minic/Support/PtxLines.h"

#include <gtest/gtest.h>

using namespace minic;

namespace {

constexpr const char *ptx = ".version 8.1\n"           // 1
                            ".visible .entry k(\n"     // 2
                            "\t.param .u64 x\n"        // 3
                            ")\n"                      // 4
                            "{\n"                      // 5
                            "\t.reg .b32 %r<3>;\n"     // 6
                            "\t.loc\t1 0 0\n"          // 7
                            "\tmov.u32 %r1, %tid.x;\n" // 8
                            "\t.loc\t1 4 8 // g:4:8\n" // 9
                            "$L__BB0_1:\n"             // 10
                            "\tadd.s32 %r2, %r1, 1;\n" // 11
                            "\t.loc\t2 70 3\n"         // 12
                            "\t// begin inline asm\n"  // 13
                            "\tret;\n"                 // 14
                            "}\n"                      // 15
                            "\tmov.u32 %r1, 0;\n"      // 16
                            "\t.file\t1 \"g.ir\"\n"    // 17
                            "\t.file\t2 \"a \\\"b\\\".cpp\"\n";

TEST(PtxLines, TheLastLocCounts) {
  auto places = ptxLines(ptx);
  ASSERT_EQ(places.size(), 18u);
  EXPECT_EQ(places[10].file, "g.ir");
  EXPECT_EQ(places[10].loc, (SourceLoc{4, 8}));
  EXPECT_EQ(places[13].file, "a \"b\".cpp");
  EXPECT_EQ(places[13].loc, (SourceLoc{70, 3}));
  for (size_t line : {1, 2, 6, 7, 8, 9, 10, 12, 13, 15, 16, 17, 18}) // Directives, labels, comments, line 0, and behind a function.
    EXPECT_FALSE(places[line - 1].loc.isValid()) << line;
  EXPECT_TRUE(hasLineInfo(ptx));
  EXPECT_FALSE(hasLineInfo(".version 8.1\n// .loc 1 2 3\n"));
  EXPECT_TRUE(ptxLines("").empty());
}

TEST(PtxLines, HostileDirectives) {
  for (const char *text : {"\t.loc", "\t.loc\t", "\t.loc 1", "\t.loc 1 2", "\t.loc 99999999999 1 1", "\t.loc 1 -2 3\n\tret;",
                           ".file", ".file 1", ".file 1 \"", ".file 1 \"\\", ".file x \"a\"", "\t.loc 7 4 8\n\tret;\n"})
    (void)ptxLines(text);
  auto places = ptxLines("\t.loc 7 4 8\n\tret;\n"); // A file that is not named.
  EXPECT_EQ(places[1].loc, (SourceLoc{4, 8}));
  EXPECT_EQ(places[1].file, "");
}

TEST(PtxLines, ThePlaceOfAnError) {
  auto place = ptxErrorPlace(ptx, "ptxas /tmp/m.ptx, line 8; warning : x\nptxas /tmp/m.ptx, line 11; error   : y\n"
                                  "ptxas m.ptx, line 14; error : z\n");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->line, 11u);
  EXPECT_EQ(place->text, "add.s32 %r2, %r1, 1;");
  EXPECT_EQ(place->from.file, "g.ir");
  EXPECT_EQ(place->from.loc, (SourceLoc{4, 8}));
  EXPECT_TRUE(ptxErrorPlace(ptx, "ptxas application ptx input, line 1; fatal   : y"));
  for (const char *log : {"", "ptxas fatal : y", ", line ; error", ", line 0; error", ", line 19; error", ", line 8; warning",
                          ", line 99999999999999; error"})
    EXPECT_FALSE(ptxErrorPlace(ptx, log)) << log;
}

} // namespace
