// The executable cache: what is in its files, which of them are believed, and that results stay the same.
#include "exec/executable_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "compile/compile.h"
#include "exec/cache_folder.h"
#include "exec/session.h"
#include "ir_testing.h"
#include "kernels/jit.h"
#include "popxl/error.h"

namespace popxl::exec {
namespace {

namespace fs = std::filesystem;
using testing::parsed;

/// A folder that is gone in the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "popxl_cache.XXXXXX").string();
    path_ = ::mkdtemp(name.data());
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  fs::path operator/(std::string_view name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// Calls two graphs, each a fused group; sin has no vector code, so that the first one calls functions.
std::shared_ptr<ir::Ir> program(const fs::path& folder, std::string_view second = "tanh",
                                std::string_view options = "") {
  return parsed(fmt::format(R"(
ir (enableEngineCaching = true, cachePath = "{}"{}) {{
  stream "y" : float32 (101,) device_to_host
  graph @main {{
    %x = variable float32 (101,) full(0.75)
    %a = call @first(%x) : float32 (101,)
    %b = call @second(%a) : float32 (101,)
    host_store %b {{stream = "y"}}
  }}
  graph @first(%x: float32 (101,)) -> (%y) {{
    %s = sin %x
    %y = mul %s, %x
  }}
  graph @second(%x: float32 (101,)) -> (%y) {{
    %s = {} %x
    %y = add %s, %x
  }}
}})",
                            folder.string(), options, second));
}

struct Compiled {
  bool loaded;
  int64_t found, added;
};

Compiled compileWithCache(const std::shared_ptr<ir::Ir>& ir) {
  const auto cache = ExecutableCache::open(*ir);
  const ResultStore::Use use(&cache->results());
  const bool loaded = cache->load();
  compile::compile(*ir);
  cache->save();
  return {loaded, cache->results().found(), cache->results().added()};
}

std::vector<float> outputOf(const std::shared_ptr<ir::Ir>& ir) {
  Session session(ir);
  session.attach();
  session.weightsFromHost();
  std::vector<float> out(101);
  const StreamBuffer buffer{"y", out.data(), 1};
  session.run(std::span(&buffer, 1));
  return out;
}

std::string contentOf(const fs::path& path) { return readFile(path, INT64_MAX).value_or("none"); }
void put(const fs::path& path, std::string_view bytes) { std::ofstream(path, std::ios::binary) << bytes; }
fs::path pathOf(const std::shared_ptr<ir::Ir>& ir) { return ExecutableCache::open(*ir)->path(); }

/// Groups become machine code, and so results, only where there is an instruction set for it.
int64_t groups(int64_t count) { return kernels::jit::chosenIsa() ? count : 0; }

TEST(ExecutableCache, SecondCompilationFindsEverything) {
  const TemporaryFolder folder;
  const auto ir = program(folder / "cache");
  const Compiled first = compileWithCache(ir);
  EXPECT_FALSE(first.loaded);
  EXPECT_EQ(first.found, 0);
  EXPECT_EQ(first.added, groups(2));
  const Compiled second = compileWithCache(program(folder / "cache"));
  EXPECT_TRUE(second.loaded);
  EXPECT_EQ(second.found, groups(2));
  EXPECT_EQ(second.added, 0);
  EXPECT_EQ(cacheFiles(folder / "cache").size(), 1u);
}

TEST(ExecutableCache, AChangedGraphIsCompiledAlone) {
  const TemporaryFolder folder;
  compileWithCache(program(folder / "cache", "tanh"));
  const Compiled changed = compileWithCache(program(folder / "cache", "exp"));
  EXPECT_FALSE(changed.loaded);
  EXPECT_EQ(changed.found, groups(1));
  EXPECT_EQ(changed.added, groups(1));
  EXPECT_EQ(cacheFiles(folder / "cache").size(), 2u);
}

TEST(ExecutableCache, BitsAreTheSame) {
  const TemporaryFolder folder;
  auto plain = program(folder / "cache");
  plain->options().enableEngineCaching = false;
  const std::vector<float> expected = outputOf(plain);
  EXPECT_FALSE(fs::exists(folder / "cache"));
  for (int run = 0; run < 3; ++run) EXPECT_EQ(outputOf(program(folder / "cache")), expected) << run;
}

TEST(ExecutableCache, OptionsThatCountMakeAnotherFile) {
  const TemporaryFolder folder;
  const fs::path plain = pathOf(program(folder / "cache"));
  const auto with = [&](std::string_view options) {
    return pathOf(program(folder / "cache", "tanh", options));
  };
  EXPECT_NE(with(R"(, engineOptions = {"opt.level" = "3"})"), plain);
  EXPECT_NE(with(", replicatedGraphCount = 2"), plain);
  EXPECT_EQ(with(R"(, logDir = "/var/log")"), plain);
  EXPECT_EQ(with(", globalReplicaOffset = 1"), plain);
}

TEST(ExecutableCache, AFileWithAnyFaultIsIgnoredAndWrittenAgain) {
  const TemporaryFolder folder;
  const auto ir = program(folder / "cache");
  compileWithCache(ir);
  const fs::path path = pathOf(ir);
  const std::string good = contentOf(path);
  const Compiled ignored{false, 0, groups(2)};
  const auto expectIgnored = [&](std::string_view content, std::string_view what) {
    put(path, content);
    const Compiled got = compileWithCache(ir);
    EXPECT_EQ(got.loaded, ignored.loaded) << what;
    EXPECT_EQ(got.added, ignored.added) << what;
    EXPECT_EQ(contentOf(path), good) << what;
  };
  expectIgnored("", "empty");
  expectIgnored("this is no executable", "text");
  expectIgnored(good.substr(0, good.size() / 2), "half");
  expectIgnored(good + "x", "longer");
  std::string flipped = good;
  flipped[good.size() / 2] ^= 1;
  expectIgnored(flipped, "flipped");
  const auto other = program(folder / "other", "exp");
  compileWithCache(other);
  put(path, contentOf(pathOf(other)));
  EXPECT_FALSE(compileWithCache(ir).loaded) << "of another program";
  EXPECT_EQ(contentOf(path), good);
}

TEST(ExecutableCache, WhatIsNoFileIsIgnored) {
  const TemporaryFolder folder;
  const auto ir = program(folder / "cache");
  fs::create_directories(folder / "cache");
  ASSERT_EQ(::mkfifo((folder / "cache/pipe.popef").c_str(), 0600), 0);
  fs::create_directory(folder / "cache/folder.popef");
  fs::create_symlink("nowhere", folder / "cache/link.popef");
  EXPECT_EQ(compileWithCache(ir).added, groups(2));
  EXPECT_TRUE(compileWithCache(ir).loaded);
}

TEST(ExecutableCache, WithoutAFolderProgramsAreCompiled) {
  const TemporaryFolder folder;
  put(folder / "file", "");
  const auto ir = program(folder / "file/cache");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(compileWithCache(ir).added, groups(2));
  EXPECT_EQ(compileWithCache(ir).added, groups(2));
  const std::string log = ::testing::internal::GetCapturedStderr();
  const size_t at = log.find("can't be written (Not a directory)");
  EXPECT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find("can't be written", at + 1), std::string::npos) << "warned twice: " << log;
}

void setAge(const fs::path& path, int64_t seconds) {
  timespec times[2];
  ::clock_gettime(CLOCK_REALTIME, &times[0]);
  times[0].tv_sec -= seconds;
  times[1] = times[0];
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

TEST(ExecutableCache, FilesUsedLongestAgoGo) {
  const TemporaryFolder folder;
  const auto first = program(folder / "cache", "tanh"), second = program(folder / "cache", "exp");
  compileWithCache(first), compileWithCache(second);
  setAge(pathOf(first), 50), setAge(pathOf(second), 40);
  EXPECT_TRUE(compileWithCache(first).loaded);  // now the one used last
  const std::string size = fmt::format("{}", contentOf(pathOf(first)).size() * 5 / 2);
  ::setenv("POPXL_CACHE_BYTES", size.c_str(), 1);
  const auto third = program(folder / "cache", "sqrt");
  put(folder / "cache/left.popef.a1B2c3", "of a writer that was killed");
  put(folder / "cache/new.popef.a1B2c3", "of one that writes");
  put(folder / "cache/notes.txt", "somebody's");
  for (const auto* old : {"cache/left.popef.a1B2c3", "cache/notes.txt"}) setAge(folder / old, 7200);
  compileWithCache(third);
  EXPECT_TRUE(fs::exists(pathOf(first)));
  EXPECT_FALSE(fs::exists(pathOf(second)));
  EXPECT_TRUE(fs::exists(pathOf(third)));
  EXPECT_FALSE(fs::exists(folder / "cache/left.popef.a1B2c3"));
  EXPECT_TRUE(fs::exists(folder / "cache/new.popef.a1B2c3"));
  EXPECT_TRUE(fs::exists(folder / "cache/notes.txt"));
  ::setenv("POPXL_CACHE_BYTES", "0", 1);
  EXPECT_FALSE(compileWithCache(second).loaded);
  EXPECT_FALSE(fs::exists(pathOf(second)));
  ::setenv("POPXL_CACHE_BYTES", "1 GB", 1);
  EXPECT_THROW(ExecutableCache::open(*first), Error);
  ::unsetenv("POPXL_CACHE_BYTES");
}

Executable example() {
  Executable e;
  e.ir = sha256("ir");
  e.graphs = {sha256("a"), sha256("b")};
  e.results = {{sha256("k"), "result"}, {sha256("l"), ""}, {sha256("m"), std::string(100, 'x')}};
  return e;
}

TEST(ExecutableFile, ComesBackAsItWas) {
  const Digest build = sha256("build");
  const Executable e = example();
  FileFault fault{};
  const auto back = decode(encode(e, build), build, fault);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->ir, e.ir);
  EXPECT_EQ(back->graphs, e.graphs);
  EXPECT_EQ(back->results, e.results);
  const auto peeked = peek(encode(e, build), build, fault);
  ASSERT_TRUE(peeked);
  EXPECT_EQ(peeked->graphs, e.graphs);
  EXPECT_FALSE(decode(encode(e, build), sha256("other"), fault));
  EXPECT_EQ(fault, FileFault::kOtherBuild);
  EXPECT_FALSE(decode("#!/bin/sh\necho this is a script", build, fault));
  EXPECT_EQ(fault, FileFault::kNotOne);
}

TEST(ExecutableFile, EveryChangedMissingOrAddedByteIsFound) {
  const Digest build = sha256("build");
  const std::string good = encode(example(), build);
  FileFault fault{};
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int change : {1, 128, 255}) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ change);
      EXPECT_FALSE(decode(bad, build, fault)) << i;
      EXPECT_NE(fault, FileFault::kNone);
    }
    EXPECT_FALSE(decode(good.substr(0, i), build, fault)) << i;
    EXPECT_FALSE(decode(good.substr(i + 1), build, fault)) << i;
  }
  EXPECT_FALSE(decode(good + '\0', build, fault));
}

/// Lengths are checked even where the checksum says that all is well.
TEST(ExecutableFile, LengthsBeyondTheEndAreFound) {
  const Digest build = sha256("build");
  const std::string good = encode(example(), build);
  FileFault fault{};
  for (size_t i = 44; i + sizeof(Digest) < good.size(); ++i) {
    std::string bad = good.substr(0, good.size() - sizeof(Digest));
    std::memset(bad.data() + i, 0xff, std::min<size_t>(8, bad.size() - i));
    const Digest sum = sha256(bad);
    bad.append(reinterpret_cast<const char*>(sum.data()), sum.size());
    const auto read = decode(bad, build, fault);
    EXPECT_TRUE(!read || read->results.size() <= 3) << i;
  }
}

TEST(ExecutableFile, TheLibraryHasABuildId) {
  ASSERT_TRUE(buildId());
  EXPECT_EQ(buildId(), buildId());
}

}  // namespace
}  // namespace popxl::exec
