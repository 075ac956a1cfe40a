#include "case.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/partition.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::mapl {

namespace {

struct CaseNumber {
    std::string_view key;
    Index Case::*member;
    Index least;
    Index most;
};
constexpr std::array<CaseNumber, 14> case_numbers{{{"rank", &Case::rank, 1, 4096},
                                                   {"width", &Case::width, 1, 4096},
                                                   {"workers", &Case::workers, 2, 1000},
                                                   {"replicas", &Case::replicas, 1, 1000},
                                                   {"tokens", &Case::tokens, 0, 1'000'000},
                                                   {"vocabulary", &Case::vocabulary, 1, 1 << 20},
                                                   {"micro", &Case::micro, 0, 1000},
                                                   {"steps", &Case::steps, 1, 1'000'000},
                                                   {"restart", &Case::restart, 0, 1'000'000},
                                                   {"seed", &Case::seed, 0, 1'000'000},
                                                   {"codewords", &Case::codewords, 0, most_codewords},
                                                   {"groups", &Case::groups, 1, 4096},
                                                   {"rounds", &Case::rounds, 1, 16},
                                                   {"subsets", &Case::subsets, 1, most_codewords}}};

constexpr std::array<std::string_view, 3> trainer_names{"none", "adams", "scape"};

void read(Case& run, const std::string& key, const std::string& value) {
    const auto one_of = [&](const char* first, const char* second) {
        if (value != first && value != second)
            throw Error("case: " + key + " is '" + value + "'; use " + first + " or " + second);
        return value == first;
    };
    if (key == "anchors") {
        run.anchors = parse_anchors(value);
    } else if (key == "order") {
        run.order = parse_order(value);
    } else if (key == "payload") {
        run.payload = parse_payload(value);
    } else if (key == "trainer") {
        const auto* const found = std::ranges::find(trainer_names, value);
        if (found == trainer_names.end())
            throw Error("case: trainer is '" + value + "'; use none, adams or scape");
        run.trainer = static_cast<Trainer>(found - trainer_names.begin());
    } else if (key == "schedule") {
        run.schedule = one_of("gpipe", "1f1b") ? Schedule::gpipe : Schedule::one_forward_one;
    } else if (key == "data") {
        run.dyadic = one_of("dyadic", "normal");
    } else {
        const auto* const found = std::ranges::find(case_numbers, key, &CaseNumber::key);
        if (found == case_numbers.end())
            throw Error(
                "case: '" + key +
                "' is none of the keys rank, width, workers, replicas, tokens, vocabulary, micro, steps, "
                "restart, seed, codewords, groups, rounds, subsets, anchors, order, schedule, data, "
                "payload, trainer of KEY=VALUE");
        const auto number = parse_number<Index>(value);
        if (!number || *number < found->least || *number > found->most)
            throw Error("case: " + key + " is '" + value + "'; it must be a number from " +
                        std::to_string(found->least) + " to " + std::to_string(found->most));
        run.*found->member = *number;
    }
}

rc::Gen<Index> upto(Index first, Index last) {
    return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<Index>(first, last + 1));
}

/// What a case has of quantization, as far as it goes with the rank and the codewords.
void fit_quantization(Case& run) {
    const bool any = run.codewords > 0;
    run.groups = any && run.rank % run.groups == 0 ? run.groups : 1;
    run.rounds = any ? run.rounds : 1;
    run.subsets = any && run.subsets > 0 && run.codewords % run.subsets == 0 ? run.subsets : 1;
}

void fit_replicas(Case& run) {
    if (run.replicas > 1 && run.trainer == Trainer::none)
        run.trainer = Trainer::adams;
}

/// None, or so many that an index takes 0 to 5 bits.
Index codewords_of(Index drawn) {
    constexpr std::array<Index, 10> all{0, 0, 0, 0, 2, 3, 6, 8, 1, 20};
    return all[static_cast<std::size_t>(drawn)];
}

/// Small ones, and those at which an id takes another byte.
Index vocabulary_of(Index drawn) {
    constexpr std::array<Index, 12> all{1, 2, 3, 3, 4, 5, 256, 257, 1000, 65536, 65537, 1 << 17};
    return all[static_cast<std::size_t>(drawn)];
}

} // namespace

std::string text(const Case& run) {
    std::string result;
    for (const CaseNumber& number : case_numbers)
        result += std::string(number.key) + "=" + std::to_string(run.*number.member) + ",";
    result += "anchors=" + std::string(name(run.anchors)) + ",order=" + std::string(name(run.order));
    result += run.schedule == Schedule::gpipe ? ",schedule=gpipe" : ",schedule=1f1b";
    result += run.dyadic ? ",data=dyadic" : ",data=normal";
    result += ",payload=" + std::string(name(run.payload));
    return result + ",trainer=" + std::string(trainer_names.at(static_cast<std::size_t>(run.trainer)));
}

Case parse_case(const std::string& text) {
    Case run;
    bool ours = false;
    bool wide = false;
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
        const std::size_t equals = part.find('=');
        const std::string key = part.substr(0, equals);
        read(run, key, equals == std::string::npos ? "" : part.substr(equals + 1));
        ours = ours || key == "rank";
        wide = wide || key == "width";
    }
    if (!ours)
        throw Error("case: '" + text + "' has no rank=NUMBER");
    if (!wide)
        run.width = run.rank;
    if (run.rank > run.width)
        throw Error("case: rank is " + std::to_string(run.rank) +
                    "; it must be at most the width, which is " + std::to_string(run.width));
    run.restart = run.restart >= run.steps ? 0 : run.restart;
    fit_quantization(run);
    fit_replicas(run);
    return run;
}

rc::Gen<Case> any_case() {
    using Drawn = std::tuple<std::tuple<Index, Index, Index, Index, Index, Index>,
                             std::tuple<Index, Index, Index, Index, Index, Index, Index>,
                             std::tuple<Index, Index, Index, Index>, std::tuple<Index, Index>>;
    return rc::gen::map(
        rc::gen::tuple(
            rc::gen::tuple(upto(1, 4), upto(0, 5), upto(2, 4), upto(1, 5), upto(0, 11), upto(1, 4)),
            rc::gen::tuple(upto(1, 3), upto(0, 2), upto(0, 99), upto(0, 3), upto(0, 3), upto(0, 1),
                           upto(0, 2)),
            rc::gen::tuple(upto(0, 9), upto(0, 1), upto(1, 3), upto(0, 2)),
            rc::gen::tuple(upto(0, 5), upto(0, 5))),
        [](const Drawn& drawn) {
            Case run;
            Index wider = 0;
            Index vocabulary = 0;
            std::tie(run.rank, wider, run.workers, run.tokens, vocabulary, run.micro) = std::get<0>(drawn);
            run.width = run.rank + wider;
            run.vocabulary = vocabulary_of(vocabulary);
            Index anchors = 0;
            Index orders = 0;
            Index data = 0;
            Index payload = 0;
            std::tie(run.steps, run.restart, run.seed, anchors, orders, data, payload) = std::get<1>(drawn);
            run.restart = run.restart >= run.steps ? 0 : run.restart;
            run.anchors = static_cast<Anchors>(anchors);
            if (run.anchors != Anchors::none && run.vocabulary > 1000)
                run.vocabulary = 257; // tables of so many rows take their time
            run.order = static_cast<Order>(orders % 2);
            run.schedule = orders < 2 ? Schedule::gpipe : Schedule::one_forward_one;
            run.dyadic = data == 0;
            run.payload = payload < 2 ? Payload::fp32 : Payload::bf16;
            Index codewords = 0;
            Index groups = 0;
            Index subsets = 0;
            std::tie(codewords, groups, run.rounds, subsets) = std::get<2>(drawn);
            // With a payload of bf16 mostly none: rounding Z wants its own cases.
            run.codewords = run.payload == Payload::fp32 || run.rounds == 3 ? codewords_of(codewords) : 0;
            run.groups = groups == 0 ? 1 : run.rank % 2 == 0 ? 2 : run.rank;
            run.subsets = subsets == 0 ? 1 : subsets == 2 && run.codewords % 2 == 0 ? 2 : run.codewords;
            fit_quantization(run);
            const auto [replicas, trainer] = std::get<3>(drawn);
            run.replicas = std::max<Index>(1, replicas - 2);           // mostly one, and up to three
            run.trainer = static_cast<Trainer>((trainer + 1) / 2 % 3); // none, two adams, two scape, none
            fit_replicas(run);
            return run;
        });
}

Settings settings_of(const Case& run) {
    Settings settings;
    settings.width = run.width;
    settings.rank = run.rank;
    settings.vocabulary = run.vocabulary;
    settings.anchors = run.anchors;
    settings.order = run.order;
    settings.beta = run.dyadic ? 0.5 : 0.9;
    settings.seed = static_cast<std::uint64_t>(run.seed);
    settings.payload = run.payload;
    settings.quantization = {run.codewords, run.groups, run.rounds, run.subsets,
                             run.codewords == 0 || !run.dyadic ? 0.9 : 0.5};
    return settings;
}

} // namespace truestep::mapl
