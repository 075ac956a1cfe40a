// Tests which failures count as one cause: those whose runs first differ at the same place.
#include "failure_groups.hpp"

#include <string>

#include <gtest/gtest.h>

namespace truestep::gate {
namespace {

using nlohmann::ordered_json;

Property named(const std::string& name) {
    Property property;
    property.name = name;
    return property;
}

ordered_json at(const std::string& phase, const std::string& result) {
    return {{"phase", phase}, {"result", result}};
}

TEST(FailureGroups, WhatPartsAtOnePlaceIsOneCause) {
    FailureGroups causes;
    const Property reference = named("reference");
    const std::string one = causes.of("mine", reference, true, at("residual", "residual"));
    EXPECT_EQ(one, "first wrong: residual");
    EXPECT_EQ(causes.of("other", reference, true, at("residual", "residual")), one);
    EXPECT_EQ(causes.of("mine", reference, true, at("exchange", "first_moment")),
              "first wrong: first_moment, phase exchange");
    EXPECT_EQ(causes.count(one), 2);
    EXPECT_EQ(causes.count_of("other", one), 1);
    EXPECT_EQ(causes.count_of("nobody", one), 0);
    EXPECT_EQ(causes.more(),
              "1 more fails, perhaps with the same cause (first wrong: residual); --report shows each.\n");
}

TEST(FailureGroups, WhatElseFailsOfAnImplementationMayFollow) {
    FailureGroups causes;
    const std::string root = causes.of("mine", named("reference"), true, at("residual", "residual"));
    EXPECT_EQ(causes.of("mine", named("conservation"), false, nullptr), root);
    EXPECT_EQ(causes.of("mine", named("dense"), false, at("exchange", "first_moment")), root);
    EXPECT_EQ(causes.count(root), 3);
}

TEST(FailureGroups, OfAnImplementationThatAgreesWithTheReferenceEachPropertyIsOne) {
    FailureGroups causes;
    static_cast<void>(causes.of("mine", named("reference"), true, at("residual", "residual")));
    EXPECT_EQ(causes.of("other", named("conservation"), false, nullptr), "property conservation");
    EXPECT_EQ(causes.of("other", named("traffic"), false, at("", "")), "property traffic");
    EXPECT_EQ(causes.of("other", named("dense"), false, at("exchange", "first_moment")),
              "first wrong: first_moment, phase exchange");
    EXPECT_EQ(causes.more(), "");
}

} // namespace
} // namespace truestep::gate
