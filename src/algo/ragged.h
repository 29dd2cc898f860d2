#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace popxl::algo {

/// Rows of integers of any length, in two flat arrays. Rows are appended in order and then read.
class Ragged {
 public:
  Ragged() : starts_{0} {}
  /// `starts` has one more entry than there are rows: row i is values[starts[i] .. starts[i + 1]).
  Ragged(std::vector<int32_t> starts, std::vector<int32_t> values)
      : starts_(std::move(starts)), values_(std::move(values)) {}

  void addRow(std::span<const int32_t> row) {
    values_.insert(values_.end(), row.begin(), row.end());
    closeRow();
  }
  /// Appends to the row under construction, which closeRow() ends.
  void push(int32_t value) { values_.push_back(value); }
  void closeRow() { starts_.push_back(static_cast<int32_t>(values_.size())); }
  void reserve(size_t rows, size_t values) {
    starts_.reserve(rows + 1);
    values_.reserve(values);
  }

  int32_t numRows() const { return static_cast<int32_t>(starts_.size()) - 1; }
  std::span<const int32_t> operator[](int32_t row) const {
    return {values_.data() + starts_[row], values_.data() + starts_[row + 1]};
  }
  /// All rows, one after the other.
  std::span<const int32_t> values() const { return values_; }

 private:
  std::vector<int32_t> starts_;
  std::vector<int32_t> values_;
};

}  // namespace popxl::algo
