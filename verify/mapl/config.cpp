// The metadata entry `config` of a trace of MAPL: one JSON text.
#include <truestep/mapl/traces.hpp>

#include <nlohmann/json.hpp>

#include <truestep/mapl/quantization.hpp>
#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>
#include <truestep/trace/config.hpp>

namespace truestep::mapl {

namespace {

/// Vectors have names of their own: beyond this the names alone fill memory.
constexpr Index most_steps = 1'000'000;
/// Then no product of two or three sizes overflows.
constexpr Index most_rows = 1 << 20;

Index counted(trace::ObjectReader& reader, const char* key, Index least, Index most) {
    const Index value = reader.integer(key);
    if (value < least || value > most)
        throw Error(std::string(key) + " is " + std::to_string(value) + "; it must be from " +
                    std::to_string(least) + " to " + std::to_string(most));
    return value;
}

/// What codewords need besides. Orders of turns follow from the seed.
void parse_codewords(trace::ObjectReader& reader, Config& config) {
    Quantization& of = config.settings.quantization;
    of.groups = counted(reader, "groups", 1, most_rows);
    of.rounds = counted(reader, "rounds", 1, most_rounds);
    of.subsets = counted(reader, "subsets", 1, most_codewords);
    of.decay = reader.number("decay");
    config.settings.seed = static_cast<std::uint64_t>(counted(reader, "seed", 0, Index{1} << 62U));
    config.before = reader.integer_or("micro_batches_before", 0);
    if (config.before < 0)
        throw Error("micro_batches_before is " + std::to_string(config.before) +
                    "; it must not be negative");
}

Config parse(const nlohmann::json& json, const std::string& what) {
    trace::ObjectReader reader(json, what);
    if (const std::string algorithm = reader.text("algorithm"); algorithm != "mapl")
        throw Error("algorithm is '" + one_line(algorithm) + "'; a trace of MAPL says mapl");
    static_cast<void>(counted(reader, "workers", 1, 1)); // one file has both sides
    Config config;
    config.steps = counted(reader, "steps", 1, most_steps);
    config.micro = counted(reader, "micro_batches", 1, most_steps);
    if (config.steps * config.micro > most_steps)
        throw Error("steps and micro_batches make " + std::to_string(config.steps * config.micro) +
                    " micro-batches; a trace has at most " + std::to_string(most_steps));
    config.tokens = counted(reader, "tokens", 1, most_rows);
    Settings& settings = config.settings;
    settings.width = counted(reader, "width", 1, most_rows);
    settings.rank = counted(reader, "subspace_rank", 1, most_rows);
    settings.vocabulary = reader.integer("vocabulary");
    settings.anchors = parse_anchors(reader.text("anchors"));
    settings.order = parse_order(reader.text("order"));
    settings.beta = reader.number("beta");
    settings.direction_iterations =
        static_cast<int>(counted(reader, "direction_iterations", 1, most_iterations));
    settings.retraction_iterations =
        static_cast<int>(counted(reader, "retraction_iterations", 1, most_iterations));
    settings.payload = parse_payload(reader.text("payload"));
    settings.quantization.codewords = reader.integer_or("codewords", 0);
    if (quantizes(settings))
        parse_codewords(reader, config);
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
    try {
        return parse(trace::parse_json(text, what), what);
    } catch (const Error& error) {
        const std::string message = one_line(error.what());
        throw Error(message.starts_with(what) ? message : what + ": " + message);
    }
}

std::string config_text(const Config& config) {
    const Settings& settings = config.settings;
    nlohmann::ordered_json json;
    json["algorithm"] = "mapl";
    json["workers"] = 1;
    json["steps"] = config.steps;
    json["micro_batches"] = config.micro;
    json["tokens"] = config.tokens;
    json["width"] = settings.width;
    json["subspace_rank"] = settings.rank;
    json["vocabulary"] = settings.vocabulary;
    json["anchors"] = name(settings.anchors);
    json["order"] = name(settings.order);
    json["beta"] = settings.beta;
    json["direction_iterations"] = settings.direction_iterations;
    json["retraction_iterations"] = settings.retraction_iterations;
    json["payload"] = name(settings.payload);
    if (quantizes(settings)) {
        const Quantization& of = settings.quantization;
        json["codewords"] = of.codewords;
        json["groups"] = of.groups;
        json["rounds"] = of.rounds;
        json["subsets"] = of.subsets;
        json["decay"] = of.decay;
        json["seed"] = settings.seed;
        json["micro_batches_before"] = config.before;
    }
    if (!config.ascending)
        json["back"] = "descending";
    return json.dump();
}

} // namespace truestep::mapl
