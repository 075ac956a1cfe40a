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
    mapl::Settings& boundary = settings.boundary;
    mapl::Quantization& codewords = boundary.quantization;
    SettingsText given(text);
    given.read("width", boundary.width);
    given.read("rank", boundary.rank);
    given.read("vocabulary", boundary.vocabulary);
    given.read("anchors", boundary.anchors, mapl::parse_anchors);
    given.read("order", boundary.order, mapl::parse_order);
    given.read("beta", boundary.beta);
    given.read("direction_iterations", boundary.direction_iterations);
    given.read("retraction_iterations", boundary.retraction_iterations);
    given.read("seed", boundary.seed);
    given.read("payload", boundary.payload, mapl::parse_payload);
    given.read("codewords", codewords.codewords);
    given.read("groups", codewords.groups);
    given.read("rounds", codewords.rounds);
    given.read("subsets", codewords.subsets);
    given.read("decay", codewords.decay);
    given.read("arithmetic", settings.reference, is_reference);
    given.finish();
    mapl::check(settings.boundary);
    constexpr mapl::Index widest = mapl::Index{1} << 30U; // then no product of two sizes overflows
    if (settings.boundary.width > widest)
        throw Error("settings: width is " + std::to_string(settings.boundary.width) +
                    "; give at most 2^30");
    return settings;
}

} // namespace truestep::abi
