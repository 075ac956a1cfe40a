#include "mapl_settings.hpp"

#include <cstdint>

#include "settings_text.hpp"

namespace truestep::abi {

namespace {

using MaplSetters = Setters<MaplSettings>;

template <class Number>
MaplSetters::mapped_type mapl_number(const std::string& key, Number mapl::Settings::*member) {
    return
        [=](MaplSettings& to, const std::string& text) { to.boundary.*member = number<Number>(key, text); };
}

template <class Number>
MaplSetters::mapped_type mapl_codewords(const std::string& key, Number mapl::Quantization::*member) {
    return [=](MaplSettings& to, const std::string& text) {
        to.boundary.quantization.*member = number<Number>(key, text);
    };
}

bool is_reference(const std::string& text) {
    if (text != "optimized" && text != "reference")
        throw Error("settings: arithmetic is '" + text + "'; give optimized or reference");
    return text == "reference";
}

MaplSetters make_mapl_setters() {
    using Boundary = mapl::Settings;
    return {
        {"width", mapl_number("width", &Boundary::width)},
        {"rank", mapl_number("rank", &Boundary::rank)},
        {"vocabulary", mapl_number("vocabulary", &Boundary::vocabulary)},
        {"anchors", [](MaplSettings& to,
                       const std::string& text) { to.boundary.anchors = mapl::parse_anchors(text); }},
        {"order",
         [](MaplSettings& to, const std::string& text) { to.boundary.order = mapl::parse_order(text); }},
        {"beta", mapl_number("beta", &Boundary::beta)},
        {"direction_iterations", mapl_number("direction_iterations", &Boundary::direction_iterations)},
        {"retraction_iterations", mapl_number("retraction_iterations", &Boundary::retraction_iterations)},
        {"seed", mapl_number("seed", &Boundary::seed)},
        {"payload", [](MaplSettings& to,
                       const std::string& text) { to.boundary.payload = mapl::parse_payload(text); }},
        {"codewords", mapl_codewords("codewords", &mapl::Quantization::codewords)},
        {"groups", mapl_codewords("groups", &mapl::Quantization::groups)},
        {"rounds", mapl_codewords("rounds", &mapl::Quantization::rounds)},
        {"subsets", mapl_codewords("subsets", &mapl::Quantization::subsets)},
        {"decay", mapl_codewords("decay", &mapl::Quantization::decay)},
        {"arithmetic",
         [](MaplSettings& to, const std::string& text) { to.reference = is_reference(text); }},
    };
}

} // namespace

MaplSettings parse_mapl_settings(const std::string& text) {
    static const MaplSetters setters = make_mapl_setters();
    MaplSettings settings;
    read_settings(text, setters, settings);
    mapl::check(settings.boundary);
    constexpr mapl::Index widest = mapl::Index{1} << 30U; // then no product of two sizes overflows
    if (settings.boundary.width > widest)
        throw Error("settings: width is " + std::to_string(settings.boundary.width) +
                    "; give at most 2^30");
    return settings;
}

} // namespace truestep::abi
