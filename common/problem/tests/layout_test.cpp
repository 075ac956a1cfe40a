// Tests where tensors lie in the vector, and which layouts are refused.
#include <truestep/problem/layout.hpp>

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>

namespace truestep::problem {
namespace {

using ::testing::ThrowsMessage;

TEST(LayoutTest, TensorsLieOneAfterTheOther) {
    const Layout layout({{"embedding", 7}, {"norm", 3, true}, {"head", 5}});
    EXPECT_EQ(layout.size(), 15);
    EXPECT_EQ(layout.begin(0), 0);
    EXPECT_EQ(layout.end(0), 7);
    EXPECT_EQ(layout.begin(1), 7);
    EXPECT_EQ(layout.end(1), 10);
    EXPECT_EQ(layout.begin(2), 10);
    EXPECT_EQ(layout.end(2), 15);
}

TEST(LayoutTest, ATensorOfSizeZeroHoldsNoCoordinate) {
    const Layout layout({{"first", 0}, {"one", 2}, {"second", 0}, {"third", 0}, {"two", 1}, {"last", 0}});
    EXPECT_EQ(layout.size(), 3);
    EXPECT_EQ(layout.begin(2), layout.end(2));
    EXPECT_EQ(layout.tensor_at(0), 1U);
    EXPECT_EQ(layout.tensor_at(1), 1U);
    EXPECT_EQ(layout.tensor_at(2), 4U);
}

TEST(LayoutTest, ACoordinateBelongsToTheTensorThatHoldsIt) {
    const Layout layout({{"a", 1}, {"b", 64}, {"c", 0}, {"d", 3}});
    for (std::size_t tensor = 0; tensor < layout.tensors().size(); ++tensor)
        for (Index index = layout.begin(tensor); index < layout.end(tensor); ++index)
            EXPECT_EQ(layout.tensor_at(index), tensor) << index;
}

TEST(LayoutTest, ACoordinateIsDescribedByTensorAndIndexInIt) {
    const Layout layout({{"wq", 512}, {"wk", 512}});
    EXPECT_EQ(layout.describe(0), "tensor wq, index 0 (coordinate 0)");
    EXPECT_EQ(layout.describe(511), "tensor wq, index 511 (coordinate 511)");
    EXPECT_EQ(layout.describe(517), "tensor wk, index 5 (coordinate 517)");
}

TEST(LayoutTest, LayoutsAreEqualIfTheirTensorsAre) {
    const Layout layout({{"a", 1}, {"b", 2, true}});
    EXPECT_EQ(layout, Layout({{"a", 1}, {"b", 2, true}}));
    EXPECT_NE(layout, Layout({{"a", 1}, {"b", 2, false}}));
    EXPECT_NE(layout, Layout({{"a", 2}, {"b", 1, true}}));
    EXPECT_NE(layout, Layout({{"a", 1}, {"c", 2, true}}));
    EXPECT_NE(layout, Layout({{"a", 1}, {"b", 2, true}, {"c", 0}}));
}

TEST(LayoutTest, TensorsAreOfTheParameterGroupsThatTheTextSays) {
    const Layout plain({{"a", 3}, {"b", 2, true}, {"c", 4}});
    EXPECT_EQ(plain.param_groups(), 1);
    EXPECT_EQ(with_param_groups(plain, ""), plain);
    const Layout grouped = with_param_groups(plain, "0,1,2");
    EXPECT_EQ(grouped, Layout({{"a", 3}, {"b", 2, true, 1}, {"c", 4, false, 2}}));
    EXPECT_EQ(grouped.param_groups(), 3);
    EXPECT_EQ(grouped.place(4), 4);
    EXPECT_EQ(grouped.part({{1, 2}, {4, 7}}).place(2), 5);
    EXPECT_EQ(grouped.part({{4, 7}}).tensors(),
              (std::vector<Tensor>{{"b", 1, true, 1}, {"c", 2, false, 2}}));
    for (const char* text : {"0,1", "0,1,1,1", "0,x,1", "0,,1", "0,1,1.5", "0 1 1"})
        EXPECT_THAT([&] { static_cast<void>(with_param_groups(plain, text)); },
                    ThrowsMessage<Error>(::testing::HasSubstr("parameter group of each of the 3 tensors")));
    EXPECT_THAT([&] { static_cast<void>(with_param_groups(plain, "0,-1,0")); },
                ThrowsMessage<Error>(::testing::HasSubstr("tensor b is of parameter group -1")));
}

TEST(LayoutTest, AModelWithoutParametersIsRefused) {
    constexpr auto text =
        "layout: the model has no parameters; give it at least one tensor of size 1 or more";
    EXPECT_THAT([] { Layout layout({}); }, ThrowsMessage<Error>(text));
    EXPECT_THAT([] { Layout layout({{"a", 0}, {"b", 0}}); }, ThrowsMessage<Error>(text));
}

TEST(LayoutTest, AnEmptyNameIsRefused) {
    EXPECT_THAT(
        [] {
            Layout layout({{"a", 1}, {"", 1}});
        },
        ThrowsMessage<Error>("layout: tensor 1 has an empty name; name it"));
}

TEST(LayoutTest, ARepeatedNameIsRefused) {
    EXPECT_THAT(
        [] {
            Layout layout({{"a", 1}, {"b", 1}, {"a", 2}});
        },
        ThrowsMessage<Error>("layout: two tensors are named a; names must differ"));
}

TEST(LayoutTest, ANegativeSizeIsRefused) {
    EXPECT_THAT(
        [] {
            Layout layout({{"a", 3}, {"b", -1}});
        },
        ThrowsMessage<Error>("layout: tensor b has size -1; a size is 0 or more"));
}

TEST(LayoutTest, ASumOfSizesThatWouldOverflowIsRefused) {
    constexpr Index most = std::numeric_limits<Index>::max();
    constexpr auto text = "layout: the sizes up to tensor b add up to more than 9007199254740991 "
                          "parameters; make the model smaller";
    EXPECT_THAT([] { Layout layout({{"a", 1}, {"b", most}}); }, ThrowsMessage<Error>(text));
    EXPECT_THAT([] { Layout layout({{"a", most / 1024}, {"b", 1}}); }, ThrowsMessage<Error>(text));
    EXPECT_EQ(Layout({{"a", most / 1024 - 1}, {"b", 1}}).size(), most / 1024);
}

TEST(LayoutTest, StretchesOfTwoTensorsStayTwo) {
    const Layout layout({{"a", 4}, {"b", 4}});
    const Layout part = layout.part({{0, 2}, {6, 8}}); // b's begins at the index at which a's ends
    ASSERT_EQ(part.tensors().size(), 2U);
    EXPECT_EQ(part.tensors()[0].name, "a");
    EXPECT_EQ(part.tensors()[1].name, "b");
}

} // namespace
} // namespace truestep::problem
