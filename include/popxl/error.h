#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace popxl {

/// What kind of mistake a user made; decides the Python exception class.
enum class ErrorKind {
  kValue,           ///< ValueError
  kType,            ///< TypeError
  kIndex,           ///< IndexError
  kKey,             ///< KeyError
  kRuntime,         ///< RuntimeError
  kNotImplemented,  ///< NotImplementedError
  kGraph,           ///< popart_exception: found by shape inference, the ambiguity check or a transform
  kDevice,          ///< popart_runtime_error: device and session state
  kNumeric,         ///< poplar_application_runtime_error: found while a program runs
};

/// A mistake of the user: says what, which operand and tensor, expected and got, and what to do instead.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

/// A mistake of ours: an invariant that does not hold. The message carries the state.
class InternalError : public std::logic_error {
 public:
  explicit InternalError(const std::string& message) : std::logic_error(message) {}
};

}  // namespace popxl
