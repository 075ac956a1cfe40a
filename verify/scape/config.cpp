// The metadata entry `config` of a trace: one JSON text (section 9).
#include <scape/verify/trace.hpp>

#include <set>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include <scape/problem/error.hpp>
#include <scape/problem/text.hpp>

namespace scape::verify {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// A JSON object being read: every key must be known, wanted ones be there, values of the right kind.
class ObjectReader {
  public:
    ObjectReader(const json& object, std::string what) : object_(object), what_(std::move(what)) {
        if (!object_.is_object())
            throw Error(what_ + " is not a JSON object; see section 9 of the specification");
    }

    const json& required(const std::string& key) {
        known_.insert(key);
        const auto found = object_.find(key);
        if (found == object_.end())
            throw Error(what_ + " has no '" + key + "'; see section 9 of the specification");
        return *found;
    }

    double number(const std::string& key) {
        const json& value = required(key);
        if (!value.is_number())
            throw wrong(key, "a number");
        return value.get<double>();
    }

    Index integer(const std::string& key) {
        const json& value = required(key);
        if (!value.is_number_integer() ||
            (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{1} << 62U))
            throw wrong(key, "a whole number below 2^62");
        return value.get<Index>();
    }

    std::string text(const std::string& key) {
        const json& value = required(key);
        if (!value.is_string())
            throw wrong(key, "a string");
        return value.get<std::string>();
    }

    std::string text_or(const std::string& key, const std::string& otherwise) {
        known_.insert(key);
        return object_.contains(key) ? text(key) : otherwise;
    }

    bool truth(const std::string& key) {
        const json& value = required(key);
        if (!value.is_boolean())
            throw wrong(key, "true or false");
        return value.get<bool>();
    }

    const json& list(const std::string& key) {
        const json& value = required(key);
        if (!value.is_array())
            throw wrong(key, "a list");
        return value;
    }

    /// A key that nobody asked for is most likely a misspelt setting.
    void finish() const {
        for (const auto& item : object_.items())
            if (!known_.contains(item.key()))
                throw Error(what_ + " has a key that section 9 does not know: " + json(item.key()).dump() +
                            "; correct or remove it");
    }

  private:
    [[nodiscard]] Error wrong(const std::string& key, const std::string& wanted) const {
        return Error(what_ + ": '" + key + "' is not " + wanted);
    }

    const json& object_;
    std::string what_;
    std::set<std::string> known_;
};

json parse_json(const std::string& text, const std::string& what) {
    // The parser would keep the last of two equal keys; here neither can be trusted.
    std::vector<std::set<std::string>> keys;
    const auto watch = [&](int, json::parse_event_t event, json& value) {
        if (event == json::parse_event_t::object_start)
            keys.emplace_back();
        else if (event == json::parse_event_t::object_end)
            keys.pop_back();
        else if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
            throw Error(what + " has the key " + value.dump() + " twice; keep one");
        return true;
    };
    try {
        return json::parse(text, watch);
    } catch (const json::parse_error& error) {
        throw Error(what + " is not JSON: byte " + std::to_string(error.byte) + " of it cannot be read");
    } catch (const json::out_of_range&) {
        throw Error(what + " is not JSON that can be read: a number in it is greater than a double holds");
    }
}

problem::Layout parse_layout(const json& list, const std::string& what) {
    std::vector<problem::Tensor> tensors;
    for (const json& item : list) {
        ObjectReader reader(item, what + ": tensor " + std::to_string(tensors.size()));
        tensors.push_back({reader.text("name"), reader.integer("size"), reader.truth("always_dense")});
        reader.finish();
    }
    return problem::Layout(std::move(tensors));
}

int to_int(Index value) {
    return static_cast<int>(std::clamp<Index>(value, -1, problem::most_workers));
}

std::vector<problem::Segment> parse_segments(const json& list, const std::string& what) {
    std::vector<problem::Segment> segments;
    for (const json& item : list) {
        ObjectReader reader(item, what + ": segment " + std::to_string(segments.size()));
        segments.push_back(
            {reader.integer("begin"), reader.integer("end"), to_int(reader.integer("owner")), false});
        reader.finish();
    }
    return segments;
}

} // namespace

Config parse_config(const std::string& text, const std::string& what) {
    try {
        const json object = parse_json(text, what);
        ObjectReader reader(object, what);
        const auto algorithm = problem::parse<problem::Algorithm>(reader.text("algorithm"));
        const Index workers = reader.integer("workers");
        problem::check_workers(workers);
        const Index steps = reader.integer("steps");
        if (steps < 1)
            throw Error("steps is " + std::to_string(steps) + "; at least 1 is needed");
        problem::HyperParameters settings;
        settings.beta1 = reader.number("beta1");
        settings.beta2 = reader.number("beta2");
        settings.epsilon = reader.number("epsilon");
        settings.weight_decay = reader.number("weight_decay");
        settings.clip_norm = reader.number("clip_norm");
        settings.bias_correction = problem::parse<problem::BiasCorrection>(reader.text("bias_correction"));
        settings.decay_order = problem::parse<problem::DecayOrder>(reader.text_or("decay_order", "first"));
        settings.k_rounding = problem::parse<problem::KRounding>(reader.text_or("k_rounding", "floor"));
        problem::Layout layout = parse_layout(reader.list("tensors"), what);
        auto segments = problem::checked_segments(layout, static_cast<int>(workers),
                                                  parse_segments(reader.list("segments"), what));
        reader.finish();
        problem::Problem problem{algorithm, static_cast<int>(workers), std::move(layout),
                                 std::move(segments), settings};
        problem::check(problem);
        return {std::move(problem), steps};
    } catch (const Error& error) {
        const std::string message = one_line(error.what());
        throw Error(message.starts_with(what) ? message : what + ": " + message);
    }
}

std::string config_text(const problem::Problem& problem, Index steps) {
    const problem::HyperParameters& settings = problem.settings;
    ordered_json config;
    config["algorithm"] = name(problem.algorithm);
    config["workers"] = problem.workers;
    config["steps"] = steps;
    config["beta1"] = settings.beta1;
    config["beta2"] = settings.beta2;
    config["epsilon"] = settings.epsilon;
    config["weight_decay"] = settings.weight_decay;
    config["bias_correction"] = name(settings.bias_correction);
    config["decay_order"] = name(settings.decay_order);
    config["clip_norm"] = settings.clip_norm;
    config["k_rounding"] = name(settings.k_rounding);
    for (const problem::Tensor& tensor : problem.layout.tensors())
        config["tensors"].push_back(ordered_json{
            {"name", tensor.name}, {"size", tensor.size}, {"always_dense", tensor.always_dense}});
    for (const problem::Segment& segment : problem.segments)
        config["segments"].push_back(
            ordered_json{{"begin", segment.begin}, {"end", segment.end}, {"owner", segment.owner}});
    return config.dump();
}

} // namespace scape::verify
