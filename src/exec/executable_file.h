#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/sha256.h"

namespace popxl::exec {

/// What a program is compiled to and may be compiled from again: the digests of the program and of its
/// graphs, and results of the compilation by their keys (ResultStore).
struct Executable {
  Digest ir = {};
  std::vector<Digest> graphs;
  std::vector<std::pair<Digest, std::string>> results;
};

/// Why bytes are no executable that this library can use.
enum class FileFault : uint8_t { kNone, kNotOne, kOtherBuild, kDamaged };
std::string_view describe(FileFault fault);

/// The file's content: magic, version of the format, build of the library, digests, results, and in the end
/// the SHA-256 of all that. `build` is that of the library, see buildId.
std::string encode(const Executable& executable, const Digest& build);

/// Nothing, and why, unless the bytes are exactly what `encode` gave to the same build.
std::optional<Executable> decode(std::string_view bytes, const Digest& build, FileFault& fault);

/// The digests at the beginning of a file, of which the rest may be missing; not checked against anything.
/// The results are empty.
std::optional<Executable> peek(std::string_view beginning, const Digest& build, FileFault& fault);

/// Identifies the code of this library: any change to it gives another one. Nothing where the linker noted
/// none.
std::optional<Digest> buildId();

}  // namespace popxl::exec
