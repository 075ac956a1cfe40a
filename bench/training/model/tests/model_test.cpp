// Tests the language model's layout, causality, first loss and reproducibility.
#include <cmath>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <truestep/problem/error.hpp>
#include <truestep/training/model.hpp>

namespace truestep::training {
namespace {

using testing::HasSubstr;

const Shape small{5, 8, 12, 2, 3};

std::string refusal(const Shape& shape) {
    try {
        check(shape);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

TEST(ModelShape, SaysWhatIsWrongWithIt) {
    EXPECT_EQ(refusal(small), "");
    EXPECT_THAT(refusal({1, 8, 12, 2, 3}), HasSubstr("symbols is 1; it must be from 2 to 256"));
    EXPECT_THAT(refusal({5, 0, 12, 2, 3}), HasSubstr("context is 0"));
    EXPECT_THAT(refusal({5, 8, 12, 2, 5}), HasSubstr("width is 12; it must be a multiple of its 5 heads"));
    EXPECT_THAT(refusal({5, 8, 12, 0, 3}), HasSubstr("layers is 0"));
}

TEST(ModelShape, HasItsTensorsInOrderAndNormsDense) {
    const problem::Layout layout = layout_of(small);
    ASSERT_EQ(layout.tensors().size(), 15U);
    EXPECT_EQ(layout.size(), (5 + 8) * 12 + 2 * (12 * 144 + 24) + 12);
    for (const problem::Tensor& tensor : layout.tensors())
        EXPECT_EQ(tensor.always_dense, tensor.name.ends_with("norm")) << tensor.name;
}

TEST(Model, StartsAsSomebodyWhoGuesses) {
    const std::vector<float> start = initial_parameters(small, 3);
    const std::vector<std::uint8_t> text{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 3, 2, 1, 0, 4, 4};
    Model<float> model(small, 2);
    EXPECT_NEAR(model.loss(start, {text, text}), std::log(5.0), 0.1);
}

TEST(Model, DoesNotSeeWhatComesLater) {
    const std::vector<float> start = initial_parameters(small, 3);
    std::vector<std::uint8_t> text{0, 1, 2, 3, 4, 0, 1, 2};
    const std::vector<std::uint8_t> targets(8, 1);
    Model<double> model(small, 1);
    // How the fourth place depends on the symbols up to it: the change of the loss by its target.
    const std::vector<double> parameters(start.begin(), start.end());
    const auto fourth = [&] {
        auto other = targets;
        other[3] = 2;
        return model.loss(parameters, {text, other}) - model.loss(parameters, {text, targets});
    };
    const double before = fourth();
    text[4] = 1;
    EXPECT_NEAR(fourth(), before, 1e-14);
    text[2] = 1;
    EXPECT_GT(std::abs(fourth() - before), 1e-6);
}

TEST(Model, HasTheSameBitsAgainAndInOtherRoom) {
    const std::vector<float> start = initial_parameters(small, 3);
    std::vector<std::uint8_t> text;
    for (std::size_t i = 0; i < 16; ++i)
        text.push_back(static_cast<std::uint8_t>(i * i % 5));
    std::vector<float> first(start.size());
    std::vector<float> second(start.size(), 7.0F);
    Model<float> model(small, 2);
    Model<float> larger(small, 5);
    EXPECT_EQ(model.loss_and_gradient(start, {text, text}, first),
              larger.loss_and_gradient(start, {text, text}, second));
    EXPECT_EQ(first, second);
    model.loss_and_gradient(start, {text, text}, second);
    EXPECT_EQ(first, second);
}

TEST(Model, RefusesBatchesThatAreNone) {
    const std::vector<float> start = initial_parameters(small, 3);
    Model<float> model(small, 2);
    const std::vector<std::uint8_t> seven(7);
    const std::vector<std::uint8_t> eight(8);
    const std::vector<std::uint8_t> unknown(8, 5);
    EXPECT_THROW(static_cast<void>(model.loss(start, {seven, seven})), Error);
    EXPECT_THROW(static_cast<void>(model.loss(start, {eight, seven})), Error);
    EXPECT_THROW(static_cast<void>(model.loss(start, {eight, unknown})), Error);
    EXPECT_THROW(static_cast<void>(model.loss(std::vector<float>(3), {eight, eight})), Error);
    EXPECT_NO_THROW(static_cast<void>(model.loss(start, {eight, eight})));
}

} // namespace
} // namespace truestep::training
