// Tests that a drawing whose lanes do not fit is refused.
#include <gtest/gtest.h>

#include <truestep/gate/drawing.hpp>
#include <truestep/problem/error.hpp>

namespace truestep::gate {
namespace {

TEST(Drawing, ALaneOfAnotherLengthIsRefused) {
    Drawing drawing{"round 1", 2, 1};
    drawing.lanes.push_back({"after", "", Lane::Kind::floats, false, {{"1", "2"}}});
    EXPECT_EQ(drawing_json(drawing)["lanes"][0]["expected"][0], nullptr);
    drawing.lanes.front().expected = {{"1"}};
    try {
        static_cast<void>(drawing_json(drawing));
        ADD_FAILURE() << "a row of one value is accepted for two coordinates";
    } catch (const Error& error) {
        EXPECT_STREQ(error.what(), "the drawing's lane 'after' does not have 1 row of 2 values; mend the "
                                   "finding that draws it");
    }
    drawing.size = Drawing::most_coordinates + 1;
    EXPECT_EQ(drawing_json(drawing), nullptr) << "nobody could read it";
}

} // namespace
} // namespace truestep::gate
