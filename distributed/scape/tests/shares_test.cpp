// Tests findings of several threads, also where one thread overtakes another in the middle of an
// operation.
#include "shares.hpp"

#include <gtest/gtest.h>

namespace truestep::distributed::scape {
namespace {

/// Another thread's value gets in before the first exchange, and the second fails spuriously, as a
/// weak one may.
class Contested {
  public:
    Contested(int value, int of_another) : value_(value), of_another_(of_another) {}

    operator int() const { return value_; } // NOLINT(google-explicit-constructor): as std::atomic has it
    bool compare_exchange_weak(int& expected, int desired) {
        if (++calls_ == 1)
            value_ = of_another_;
        const bool succeeds = expected == value_ && calls_ != 2;
        if (succeeds)
            value_ = desired;
        expected = succeeds ? expected : value_;
        return succeeds;
    }

  private:
    int value_;
    int of_another_;
    int calls_ = 0;
};

TEST(Shares, TheGreatestStaysWhoeverIsBetween) {
    Contested greatest(1, 5);
    raise(greatest, 7);
    EXPECT_EQ(greatest, 7);
    Contested passed(1, 9);
    raise(passed, 7);
    EXPECT_EQ(passed, 9);
}

TEST(Shares, TheLeastStaysWhoeverIsBetween) {
    Contested least(9, 5);
    lower(least, 3);
    EXPECT_EQ(least, 3);
    Contested passed(9, 2);
    lower(passed, 3);
    EXPECT_EQ(passed, 2);
}

} // namespace
} // namespace truestep::distributed::scape
