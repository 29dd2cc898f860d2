#pragma once

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>

#include "base/error.h"

// What the command-line tools share.
namespace popxl::tools {

/// The whole of a file, of standard input for "-". Error(kValue) when it can't be read.
inline std::string readAll(const std::string& path) {
  if (path == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(ErrorKind::kValue, "can't read {}: {}", path, std::strerror(errno));
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The number behind the '=' of an option. Error(kValue) unless it is one from 0 up.
inline int64_t numberOf(std::string_view option) {
  const std::string_view text = option.substr(option.find('=') + 1);
  const char* const first = text.data();
  const char* const last = first + text.size();
  int64_t value = 0;
  const auto [end, error] = std::from_chars(first, last, value);
  if (error != std::errc() || end != last || value < 0)
    fail(ErrorKind::kValue, "{}: `{}` is no number from 0 up", option.substr(0, option.find('=')), text);
  return value;
}

/// Runs `work` and returns its exit status: 1 after an error of the user, 2 after one of ours.
template <typename Work>
int runTool(std::string_view name, const Work& work) {
  try {
    return work();
  } catch (const Error& error) {
    std::cerr << name << ": error: " << error.what() << '\n';
    return 1;
  } catch (const std::exception& error) {
    std::cerr << name << ": internal error: " << error.what() << '\n';
    return 2;
  }
}

}  // namespace popxl::tools
