// Parses the text of a MAPL boundary's settings.
#include "mapl_settings.hpp"

#include <cstdint>

#include "settings_text.hpp"

namespace truestep::abi {

namespace {

bool is_reference(const std::string& text) {
    if (text != "optimized" && text != "reference")
        throw Error("settings: arithmetic is '" + text + "'; give optimized or reference");
    return text == "reference";
}

} // namespace

MaplSettings parse_mapl_settings(const char* text) {
    MaplSettings settings;
    problem::mapl::Settings& boundary = settings.boundary;
    problem::mapl::Quantization& codewords = boundary.quantization;
    SettingsText given(text);
    given.read("width", boundary.width);
    given.read("rank", boundary.rank);
    given.read("vocabulary", boundary.vocabulary);
    given.read("anchors", boundary.anchors, problem::mapl::parse_anchors);
    given.read("order", boundary.order, problem::mapl::parse_order);
    given.read("beta", boundary.beta);
    given.read("direction_iterations", boundary.direction_iterations);
    given.read("retraction_iterations", boundary.retraction_iterations);
    given.read("seed", boundary.seed);
    given.read("payload", boundary.payload, problem::mapl::parse_payload);
    given.read("codewords", codewords.codewords);
    given.read("groups", codewords.groups);
    given.read("rounds", codewords.rounds);
    given.read("subsets", codewords.subsets);
    given.read("decay", codewords.decay);
    given.read("arithmetic", settings.reference, is_reference);
    given.finish();
    problem::mapl::check(settings.boundary);
    constexpr problem::mapl::Index widest = problem::mapl::Index{1}
                                            << 30U; // then no product of two sizes overflows
    if (settings.boundary.width > widest)
        throw Error("settings: width is " + std::to_string(settings.boundary.width) +
                    "; give at most 2^30");
    return settings;
}

} // namespace truestep::abi
