// Tests bad values of each setting in the C interface, whose own message lists the settings. Each is
// refused in one line that names the setting, or accepted and comes to a good end.
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <truestep.h>

namespace truestep::abi {
namespace {

/// Makes an object from the text of its settings, and frees it.
using Create = std::function<truestep_status(const std::string& settings)>;

/// The line of the error, or "" if the settings are accepted.
std::string refusal(const Create& create, const std::string& settings) {
    return create(settings) == TRUESTEP_OK ? "" : truestep_last_error();
}

std::vector<std::string> keys_of(const Create& create) {
    const std::string line = refusal(create, "no_such_key=1");
    std::istringstream words(line.substr(line.rfind("one of ") + 7));
    std::vector<std::string> keys;
    for (std::string word; std::getline(words >> std::ws, word, ',');)
        keys.push_back(word);
    return keys;
}

using Settings = std::map<std::string, std::string>;

std::string text_of(const Settings& settings) {
    std::string text;
    for (const auto& [key, value] : settings)
        text += " " + key + "=" + value;
    return text;
}

/// `of_any_size`: settings that may be as large as a double. `usual` is what has to be given at least.
void expect_bad_values_named(const Create& create, const std::set<std::string>& of_any_size,
                             const Settings& usual = {}) {
    ASSERT_EQ(refusal(create, text_of(usual)), "");
    const std::vector<std::string> keys = keys_of(create);
    EXPECT_GE(keys.size(), 15U);
    for (const std::string& key : keys) {
        const auto with = [&](const std::string& value) {
            Settings settings = usual;
            settings[key] = value;
            const std::string line = refusal(create, text_of(settings));
            EXPECT_TRUE(line.empty() || line.find(key) != std::string::npos)
                << key << "=" << value << ": " << line;
            EXPECT_EQ(line.find('\n'), std::string::npos) << line;
            return line;
        };
        const bool list = key == "groups" || key == "param_groups" || key == "edges"; // may be empty
        for (const char* never : {"nan", "-nan", "-1", "inf", "-inf", "word", "1x", "1,x", list ? "x" : ""})
            EXPECT_NE(with(never), "") << key << "=" << never << " is accepted";
        static_cast<void>(with("0"));
        for (const char* large : {"1e300", "99999999999999999999"})
            EXPECT_EQ(with(large).empty(), of_any_size.contains(key)) << key << "=" << large;
        EXPECT_NE(refusal(create, key + "=1 " + key + "=1").find(key), std::string::npos)
            << key << " twice";
        EXPECT_NE(refusal(create, key).find("'" + key + "'"), std::string::npos)
            << key << " without a value";
    }
}

const truestep_tensor tensors[]{{"a", 70, 0}, {"b", 9, 1}};

TEST(BadValues, OfScapeAreNamed) {
    expect_bad_values_named(
        [](const std::string& settings) {
            truestep_problem* problem = nullptr;
            const truestep_status status =
                truestep_problem_create(tensors, 2, 3, settings.c_str(), &problem);
            truestep_problem_destroy(problem);
            return status;
        },
        {"epsilon", "weight_decay", "clip_norm"});
}

TEST(BadValues, OfGaslocAreNamed) {
    expect_bad_values_named(
        [](const std::string& settings) {
            truestep_gasloc_problem* problem = nullptr;
            const truestep_status status =
                truestep_gasloc_problem_create(tensors, 2, 3, settings.c_str(), &problem);
            truestep_gasloc_problem_destroy(problem);
            return status;
        },
        {"epsilon", "weight_decay", "eta"});
}

TEST(BadValues, OfMaplAreNamed) {
    expect_bad_values_named(
        [](const std::string& settings) {
            truestep_mapl_boundary* boundary = nullptr;
            const truestep_status status =
                truestep_mapl_boundary_create(settings.c_str(), nullptr, &boundary);
            truestep_mapl_boundary_destroy(boundary);
            return status;
        },
        {}, {{"width", "4"}, {"rank", "2"}});
}

} // namespace
} // namespace truestep::abi
