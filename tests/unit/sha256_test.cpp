#include "base/sha256.h"

#include <gtest/gtest.h>

namespace popxl {
namespace {

// Published examples of the standard, and coreutils' sha256sum.
TEST(Sha256, GivesTheDigestsOfTheStandard) {
  EXPECT_EQ(hex(sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex(sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(sha256(std::string(1000000, 'a'))),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesMakeNoDifference) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 37);
  for (size_t size = 0; size <= text.size(); ++size) {
    const std::string_view whole = std::string_view(text).substr(0, size);
    for (const size_t cut : {size / 3, size / 2, size - size / 5}) {
      EXPECT_EQ(Sha256().add(whole.substr(0, cut)).add(whole.substr(cut)).finish(), sha256(whole)) << size;
    }
  }
}

}  // namespace
}  // namespace popxl
