#include <truestep/properties/case.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/room.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::properties {

namespace {

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::size_t begin = 0;
    while (true) {
        const std::size_t end = text.find(separator, begin);
        parts.push_back(text.substr(begin, end - begin));
        if (end == std::string::npos)
            return parts;
        begin = end + 1;
    }
}

template <class Number>
Number number(const std::string& key, const std::string& text) {
    const auto value = parse_number<Number>(text);
    if (!value)
        throw Error("case: " + key + " is '" + text + "'; it must be a number");
    return *value;
}

std::string tensors_text(const std::vector<problem::Tensor>& tensors) {
    std::string text;
    for (const problem::Tensor& tensor : tensors)
        text += (text.empty() ? "" : "+") + tensor.name + ":" + std::to_string(tensor.size) +
                (tensor.always_dense ? ":dense" : "");
    return text;
}

std::vector<problem::Tensor> parse_tensors(const std::string& text) {
    std::vector<problem::Tensor> tensors;
    for (const std::string& part : split(text, '+')) {
        const auto fields = split(part, ':');
        if (fields.size() < 2 || fields.size() > 3 || (fields.size() == 3 && fields[2] != "dense"))
            throw Error("case: tensors has '" + part +
                        "'; write name:size or name:size:dense, with + between");
        tensors.push_back({fields[0], number<Index>("tensors", fields[1]), fields.size() == 3});
    }
    return tensors;
}

/// A comma stands between the fields.
std::string with(std::string text, char old_separator, char separator) {
    std::ranges::replace(text, old_separator, separator);
    return text;
}

std::string script_text(const std::vector<Operation>& script) {
    std::string text;
    for (const Operation& operation : script) {
        text += text.empty() ? "" : "+";
        switch (operation.kind) {
        case Operation::Kind::step:
            text += "step";
            break;
        case Operation::Kind::inject:
            text += "inject:" + std::to_string(operation.rank) + ":" + std::to_string(operation.what);
            break;
        case Operation::Kind::restart:
            text += "restart:" + std::to_string(operation.workers);
            break;
        case Operation::Kind::delay:
            text += "delay:" + std::to_string(operation.what);
            break;
        case Operation::Kind::undo:
            text += "undo";
            break;
        }
    }
    return text;
}

std::vector<Operation> parse_script(const std::string& text) {
    std::vector<Operation> script;
    for (const std::string& part : split(text, '+')) {
        const auto fields = split(part, ':');
        Operation operation;
        if (fields[0] == "step" && fields.size() == 1) {
            operation.kind = Operation::Kind::step;
        } else if (fields[0] == "inject" && fields.size() == 3) {
            operation.kind = Operation::Kind::inject;
            operation.rank = number<int>("script", fields[1]);
            operation.what = number<std::uint8_t>("script", fields[2]);
        } else if (fields[0] == "restart" && fields.size() == 2) {
            operation.kind = Operation::Kind::restart;
            operation.workers = number<int>("script", fields[1]);
        } else if (fields[0] == "delay" && fields.size() == 2) {
            operation.kind = Operation::Kind::delay;
            operation.what = number<std::uint8_t>("script", fields[1]);
        } else if (fields[0] == "undo" && fields.size() == 1) {
            operation.kind = Operation::Kind::undo;
        } else {
            throw Error(
                "case: script has '" + part +
                "'; write step, inject:RANK:WHAT, restart:WORKERS, delay:WHAT or undo, with + between");
        }
        script.push_back(operation);
    }
    return script;
}

std::string damage_text(const Damage& damage) {
    const std::string file = std::to_string(damage.file);
    switch (damage.kind) {
    case Damage::Kind::none:
        break;
    case Damage::Kind::bit:
        return "bit:" + file + ":" + std::to_string(damage.byte) + ":" + std::to_string(damage.bit);
    case Damage::Kind::shorter:
        return "shorter:" + file;
    case Damage::Kind::longer:
        return "longer:" + file;
    }
    return {};
}

Damage parse_damage(const std::string& text) {
    const auto fields = split(text, ':');
    Damage damage;
    if (fields[0] == "bit" && fields.size() == 4) {
        damage.kind = Damage::Kind::bit;
        damage.byte = number<std::int64_t>("damage", fields[2]);
        damage.bit = number<int>("damage", fields[3]);
    } else if ((fields[0] == "shorter" || fields[0] == "longer") && fields.size() == 2) {
        damage.kind = fields[0] == "shorter" ? Damage::Kind::shorter : Damage::Kind::longer;
    } else {
        throw Error("case: damage is '" + text +
                    "'; write bit:FILE:BYTE:BIT, shorter:FILE or longer:FILE, a byte from the end as -1");
    }
    damage.file = number<int>("damage", fields[1]);
    if (damage.file < 0 || damage.bit < 0 || damage.bit > 7)
        throw Error("case: damage is '" + text + "'; files count from 0, bits from 0 to 7");
    return damage;
}

constexpr std::array<std::string_view, 3> density_rules{"geometric", "linear", "jumps"};
constexpr std::array<std::string_view, 4> rate_rules{"constant", "warm_up", "to_zero", "wild"};
constexpr std::array<std::string_view, 3> cut_rules{"backward", "rebuilt", "wild"};

/// By its place in a list of names.
template <class Choice, std::size_t count>
Choice named(const std::array<std::string_view, count>& names, const std::string& key,
             const std::string& text) {
    std::string all;
    for (std::size_t place = 0; place < count; ++place) {
        if (names[place] == text)
            return static_cast<Choice>(place);
        all += (place == 0 ? "" : place + 1 == count ? " or " : ", ") + std::string(names[place]);
    }
    throw Error("case: " + key + " is '" + text + "'; it must be " + all);
}

/// One field as text, and from it.
struct Field {
    std::string key;
    std::function<std::string(const Case&)> write;
    std::function<void(Case&, const std::string&)> read;
};

template <class Value>
Field number_field(const std::string& key, Value Case::*member) {
    return {key,
            [member](const Case& run) {
                if constexpr (std::is_floating_point_v<Value>)
                    return shortest(run.*member);
                else
                    return std::to_string(run.*member);
            },
            [key, member](Case& run, const std::string& text) { run.*member = number<Value>(key, text); }};
}

template <class Choice>
Field choice_field(const std::string& key, Choice Case::*member) {
    return {key, [member](const Case& run) { return std::string(problem::name(run.*member)); },
            [member](Case& run, const std::string& text) { run.*member = problem::parse<Choice>(text); }};
}

template <class Choice, std::size_t count>
Field named_field(const std::string& key, const std::array<std::string_view, count>& names,
                  Choice Case::*member) {
    return {key,
            [&names, member](const Case& run) {
                return std::string(names.at(static_cast<std::size_t>(run.*member)));
            },
            [&names, key, member](Case& run, const std::string& text) {
                run.*member = named<Choice>(names, key, text);
            }};
}

const std::vector<Field>& fields() {
    static const std::vector<Field> all{
        {"tensors", [](const Case& run) { return tensors_text(run.tensors); },
         [](Case& run, const std::string& text) { run.tensors = parse_tensors(text); }},
        number_field("workers", &Case::workers),
        {"groups", [](const Case& run) { return with(problem::groups_text(run.groups), ',', '+'); },
         [](Case& run, const std::string& text) {
             run.groups = problem::parse_groups(with(text, '+', ','));
             if (std::ranges::any_of(run.groups, [](int size) { return size < 1; }))
                 throw Error("case: groups is '" + text + "'; each has at least 1 rank");
         }},
        choice_field("partition", &Case::partition),
        {"owners", [](const Case& run) { return std::string(run.owners_in_turn ? "turn" : "range"); },
         [](Case& run, const std::string& text) {
             if (text != "turn" && text != "range")
                 throw Error("case: owners is '" + text + "'; it must be range or turn");
             run.owners_in_turn = text == "turn";
         }},
        number_field("density", &Case::density),
        named_field("schedule", density_rules, &Case::schedule),
        number_field("start", &Case::start),
        number_field("warm_up", &Case::warm_up),
        named_field("rate", rate_rules, &Case::rate),
        number_field("beta1", &Case::beta1),
        number_field("beta2", &Case::beta2),
        number_field("epsilon", &Case::epsilon),
        choice_field("correction", &Case::bias_correction),
        number_field("decay", &Case::weight_decay),
        number_field("clip", &Case::clip_norm),
        choice_field("norm", &Case::norm),
        choice_field("payload", &Case::payload),
        {"data", [](const Case& run) { return problem::name(run.data); },
         [](Case& run, const std::string& text) { run.data = problem::parse_data_class(text); }},
        number_field("silent", &Case::silent),
        number_field("seed", &Case::seed),
        number_field("parts", &Case::parts),
        number_field("buckets", &Case::bucket_bytes),
        named_field("cuts", cut_rules, &Case::cuts),
        number_field("steps", &Case::steps),
        {"script", [](const Case& run) { return script_text(run.script); },
         [](Case& run, const std::string& text) { run.script = parse_script(text); }},
        {"damage", [](const Case& run) { return damage_text(run.damage); },
         [](Case& run, const std::string& text) { run.damage = parse_damage(text); }},
        number_field("rank", &Case::chosen_rank),
        number_field("place", &Case::chosen_place),
        number_field("other_workers", &Case::other_workers),
    };
    return all;
}

void check(const Case& run) {
    problem::check(problem_of(run));
    static_cast<void>(schedule_of(run));
    constexpr Index most_steps = 1'000'000;
    if (run.steps < 1 || run.steps > most_steps)
        throw Error("case: steps is " + std::to_string(run.steps) + "; it must be 1 to a million");
    // Gradients of all steps, and on each rank one more, residual and parameters.
    problem::check_memory(4.0 * static_cast<double>(run.size()) * run.workers *
                              (3.0 + static_cast<double>(run.script.empty() ? run.steps : 0)),
                          "such a case");
    constexpr int most_parts = 1000;
    if (run.parts < 1 || run.parts > most_parts)
        throw Error("case: parts is " + std::to_string(run.parts) + "; it must be 1 to a thousand");
    if (run.bucket_bytes < 0)
        throw Error("case: buckets is " + std::to_string(run.bucket_bytes) +
                    "; it must be the bytes of one, or 0");
    problem::check_workers(run.other_workers);
    for (const Operation& operation : run.script)
        problem::check_workers(operation.workers);
    if (run.owners_in_turn && problem::rounds_mean(run.payload))
        throw Error("case: owners is turn and payload is " + std::string(name(run.payload)) +
                    ", whose means are kept by who owns their range; set owners to range");
    if (run.chosen_rank < 0 || run.chosen_place < 0)
        throw Error("case: rank and place must not be negative");
}

} // namespace

Index Case::size() const {
    Index sum = 0;
    for (const problem::Tensor& tensor : tensors)
        sum += tensor.size;
    return sum;
}

std::string text(const Case& run) {
    const Case usual;
    std::string result;
    for (const Field& field : fields())
        if (const std::string value = field.write(run); value != field.write(usual))
            result += (result.empty() ? "" : ",") + field.key + "=" + value;
    return result.empty() ? "steps=1" : result;
}

Case parse_case(const std::string& text) {
    Case run;
    for (const std::string& part : split(text, ',')) {
        const std::size_t equals = part.find('=');
        const std::string key = part.substr(0, equals);
        const Field* known = nullptr;
        for (const Field& field : fields())
            if (field.key == key)
                known = &field;
        if (known == nullptr || equals == std::string::npos) {
            std::string keys;
            for (const Field& field : fields())
                keys += (keys.empty() ? "" : ", ") + field.key;
            throw Error("case: '" + part + "' is not key=value with one of the keys " + keys);
        }
        known->read(run, part.substr(equals + 1));
    }
    check(run);
    return run;
}

problem::Problem problem_of(const Case& run) {
    problem::HyperParameters settings;
    settings.beta1 = run.beta1;
    settings.beta2 = run.beta2;
    settings.epsilon = run.epsilon;
    settings.weight_decay = run.weight_decay;
    settings.clip_norm = run.clip_norm;
    settings.norm = run.norm;
    settings.payload = run.payload;
    settings.groups = groups_of(run);
    settings.bias_correction = run.bias_correction;
    auto problem = problem::make_problem(problem::Algorithm::scape, run.workers,
                                         problem::Layout(run.tensors), run.partition, settings);
    if (run.owners_in_turn)
        for (std::size_t number = 0; number < problem.segments.size(); ++number)
            problem.segments[number].owner =
                static_cast<int>(number % static_cast<std::size_t>(run.workers));
    return problem;
}

double jumping_density(const Case& run, Index t) {
    const std::array<double, 6> cycle{
        run.start, run.density, run.density, run.start, (run.start + run.density) / 2, 1.0};
    return cycle[static_cast<std::size_t>(t - 1) % cycle.size()];
}

problem::DensitySchedule schedule_of(const Case& run) {
    switch (run.schedule) {
    case DensityRule::geometric:
        return problem::DensitySchedule::geometric(run.start, run.density, run.warm_up);
    case DensityRule::linear:
        return problem::DensitySchedule::linear(run.start, run.density, run.warm_up);
    case DensityRule::jumps:
        break;
    }
    std::vector<double> values;
    // A step more than is taken, whose mask is made and not used, and one more for properties that add one.
    for (Index t = 1; t <= run.steps + static_cast<Index>(run.script.size()) + 3; ++t)
        values.push_back(jumping_density(run, t));
    return problem::DensitySchedule::recorded(std::move(values));
}

double learning_rate_of(const Case& run, Index step) {
    constexpr double usual = 0x1p-8;
    const int t = static_cast<int>(std::min<Index>(step, 1000));
    switch (run.rate) {
    case RateRule::constant:
        return usual;
    case RateRule::warm_up:
        return t == 1 ? 0.0 : std::ldexp(usual, std::min(t - 5, 0));
    case RateRule::to_zero:
        return step >= run.steps && run.script.empty() ? 0.0 : std::ldexp(usual, -std::min(t - 1, 40));
    case RateRule::wild:
        break;
    }
    constexpr std::array<double, 5> rates{0x1p-8, 0.003, 0.0, 0x1p-3, 1e-7};
    return rates[static_cast<std::size_t>(t - 1) % rates.size()];
}

std::vector<float> parameters_of(const Case& run) {
    std::vector<float> w;
    for (Index index = 0; index < run.size(); ++index)
        w.push_back(run.data == problem::DataClass::zeros
                        ? (index % 2 == 0 ? -0.0F : 0.0F)
                        : problem::initial_parameter(run.data, run.seed, index));
    return w;
}

} // namespace truestep::properties
