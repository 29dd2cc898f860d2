#pragma once

namespace popxl::exec {

/// While it lives, this thread runs a function of the user's for an op of a running session.
class UserCode {
 public:
  UserCode() { ++depth(); }
  ~UserCode() { --depth(); }
  UserCode(const UserCode&) = delete;
  UserCode& operator=(const UserCode&) = delete;

  static bool isRunning() { return depth() > 0; }

 private:
  static int& depth();
};

}  // namespace popxl::exec
