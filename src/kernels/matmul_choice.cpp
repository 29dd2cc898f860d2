#include "kernels/matmul_choice.h"

#include <algorithm>

#include "kernels/gemm_simd.h"

namespace popxl::kernels {
namespace {

/// Constants of the model, nanoseconds on one thread, fitted to the table that bench_matmul_choice prints.
/// Only their ratios matter: what all paths pay alike, such as memory that is slow, is left out.
struct Model {
  double ownFlops;    ///< operations of our inner loops in a nanosecond
  double ownStart;    ///< of a call
  double packAlong;   ///< an element packed from memory that is dense along the panel
  double packAcross;  ///< an element that has to be transposed
  double readRhs;     ///< an element of B that is read once, as it lies
  double largeTiles;  ///< factor for a large product that is not packed for tiles of the second-level cache
  double libraryFlops, libraryStart;
  double libraryElement;     ///< an element of either operand
  double libraryRhsAlongK;   ///< factor for a large right operand that is dense along k
  double libraryAliasedRhs;  ///< factor for few rows, with rows of a large B that share their cache sets
};

constexpr Model kWide{205, 280, 0.15, 0.2, 0.08, 1.2, 215, 430, 0.02, 1.25, 1.25};   // AVX-512
constexpr Model kNarrow{102, 280, 0.15, 0.2, 0.12, 1.1, 108, 430, 0.02, 1.1, 1.15};  // AVX2 and others

const Model& model() { return simd::gemmOps<float>().lanes >= 16 ? kWide : kNarrow; }

double times(int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

/// Operations of our own loops, which work on whole vectors of columns.
double ownFlops(const Product& p) {
  const int64_t lanes = simd::gemmOps<float>().lanes;
  return 2.0 * times(p.m, (p.n + lanes - 1) / lanes * lanes) * static_cast<double>(p.k);
}

double factorOfLarge(const Model& t, const Product& p) {
  constexpr double kLargeFlops = 2e8;
  return 2.0 * times(p.m, p.n) * static_cast<double>(p.k) > kLargeFlops ? t.largeTiles : 1;
}

double packRhs(const Model& t, const Product& p) {
  return times(p.k, p.n) * (p.rhsAlongK ? t.packAcross : t.packAlong);
}

double directTime(const Model& t, const Product& p) {
  constexpr int64_t kInCache = 16 * 1024;  // as packsRhs of gemm_simd.cpp decides
  const bool packs = p.rhsAlongK || (p.m > 5 * simd::gemmOps<float>().rows && p.k * p.n > kInCache);
  // Columns of a large A that are read as they lie miss the caches; a large B is packed for every tile, or
  // read for every panel of rows.
  const double misses = !p.lhsAlongK && p.m * p.k > 4 * kInCache ? 1.25 : 1.0;
  const double flops = misses * factorOfLarge(t, p) * ownFlops(p) / t.ownFlops;
  if (packs) return t.ownStart + flops + 2 * packRhs(t, p);
  const int64_t rows = simd::gemmOps<float>().rows, panels = (p.m + rows - 1) / rows;
  const double again = panels > 1 && p.k * p.n > 4 * kInCache ? 1.1 : 1.0;
  return t.ownStart + std::max(again * flops, t.readRhs * times(p.k, p.n) * static_cast<double>(panels));
}

double panelsTime(const Model& t, const Product& p) {
  const int64_t lanes = simd::gemmOps<float>().lanes;
  const int64_t pieces = (p.n + kPanelVectors * lanes - 1) / (kPanelVectors * lanes);
  const double packLhs = times(p.m, p.k) * t.packAlong;
  return t.ownStart + ownFlops(p) / t.ownFlops + packRhs(t, p) + static_cast<double>(pieces) * packLhs;
}

double libraryTime(const Model& t, const Product& p) {
  constexpr int64_t kLarge = 1 << 20, kBeyondL1 = 1 << 17, kAliased = 512, kFewRows = 512;
  const bool aliased = p.k * p.rhsStep > kLarge && p.rhsStep % kAliased == 0;
  const double flops = 2.0 * times(p.m, p.n) * static_cast<double>(p.k);
  double factor = factorOfLarge(t, p);
  if (p.rhsAlongK && p.k * p.n > kBeyondL1) factor *= t.libraryRhsAlongK;
  if (aliased && !p.rhsAlongK && p.m <= kFewRows) factor *= t.libraryAliasedRhs;
  return t.libraryStart + t.libraryElement * (times(p.m, p.k) + times(p.k, p.n)) +
         std::max(factor * flops / t.libraryFlops, t.readRhs * times(p.k, p.n));
}

}  // namespace

const char* nameOf(MatmulPath path) {
  constexpr const char* kNames[kMatmulPaths] = {"streamed", "direct", "library", "panels"};
  return kNames[static_cast<int>(path)];
}

double predictedTime(MatmulPath path, const Product& p) {
  switch (path) {
    case MatmulPath::kStreamed:
      return 0;  // always the best where it is possible
    case MatmulPath::kDirect:
      return directTime(model(), p);
    case MatmulPath::kLibrary:
      return libraryTime(model(), p);
    case MatmulPath::kPanels:
      return panelsTime(model(), p);
  }
  return 0;
}

MatmulPath choosePath(const Product& p) {
  MatmulPath best = MatmulPath::kDirect;
  const auto consider = [&](bool possible, MatmulPath path) {
    if (possible && predictedTime(path, p) < predictedTime(best, p)) best = path;
  };
  consider(p.canStream, MatmulPath::kStreamed);
  consider(p.canLibrary, MatmulPath::kLibrary);
  consider(p.canPack, MatmulPath::kPanels);
  return best;
}

}  // namespace popxl::kernels
