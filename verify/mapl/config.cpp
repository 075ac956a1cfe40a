// The metadata entry `config` of a trace of MAPL: one JSON text.
#include <truestep/verify/mapl/traces.hpp>

#include <nlohmann/json.hpp>

#include <truestep/problem/error.hpp>
#include <truestep/problem/mapl/quantization.hpp>
#include <truestep/problem/text.hpp>

#include "visit.hpp"

namespace truestep::verify::mapl {

namespace {

Config parse(const nlohmann::json& json, const std::string& what) {
    trace::ObjectReader reader(json, what);
    if (const std::string algorithm = reader.text("algorithm"); algorithm != "mapl")
        throw Error("algorithm is '" + one_line(algorithm) + "'; a trace of MAPL says mapl");
    static_cast<void>(reader.within("workers", {1, 1})); // one file holds both sides
    Config config;
    const auto read = [&](const std::string& key, auto& value, auto... how) {
        reader.read(key, value, how...);
    };
    visit_settings(config, read);
    if (config.steps * config.micro > most_steps)
        throw Error("steps and micro_batches make " + std::to_string(config.steps * config.micro) +
                    " micro-batches; a trace has at most " + std::to_string(most_steps));
    Settings& settings = config.settings;
    settings.quantization.codewords = reader.integer_or("codewords", 0);
    if (quantizes(settings)) {
        visit_codewords(settings, read);
        config.before = reader.integer_or("micro_batches_before", 0);
        if (config.before < 0)
            throw Error("micro_batches_before is " + std::to_string(config.before) +
                        "; it must not be negative");
    }
    const std::string back = reader.text_or("back", "ascending");
    if (back != "ascending" && back != "descending")
        throw Error("back is '" + one_line(back) + "'; it must be ascending or descending");
    config.ascending = back == "ascending";
    reader.finish();
    check(settings);
    if (settings.anchors != Anchors::none && settings.vocabulary > most_rows)
        throw Error("vocabulary is " + std::to_string(settings.vocabulary) +
                    "; a trace holds tables of at most " + std::to_string(most_rows) + " rows");
    return config;
}

} // namespace

Config parse_config(const std::string& text, const std::string& what) {
    return trace::parse_config(text, what, [&](const nlohmann::json& json) { return parse(json, what); });
}

std::string config_text(const Config& config) {
    nlohmann::ordered_json json;
    json["algorithm"] = "mapl";
    json["workers"] = 1;
    const auto write = [&](const std::string& key, const auto& value, auto...) {
        trace::write_setting(json, key, value);
    };
    visit_settings(config, write);
    if (quantizes(config.settings)) {
        json["codewords"] = config.settings.quantization.codewords;
        visit_codewords(config.settings, write);
        json["micro_batches_before"] = config.before;
    }
    if (!config.ascending)
        json["back"] = "descending";
    return json.dump();
}

} // namespace truestep::verify::mapl
