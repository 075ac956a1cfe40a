#include "case.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <sstream>
#include <string_view>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/partition.hpp>
#include <truestep/problem/room.hpp>
#include <truestep/problem/text.hpp>

namespace truestep::gasloc {

namespace {

using problem::BiasCorrection;
using problem::DataClass;

/// A word of a case, and how it is read.
struct Word {
    std::string_view key;
    std::string (*get)(const Case&);
    void (*set)(Case&, const std::string&);
};
constexpr std::array<Word, 5> kind_words{{
    {"law", [](const Case& run) { return std::string(name(run.law)); },
     [](Case& run, const std::string& text) { run.law = parse_law(text); }},
    {"inner", [](const Case& run) { return std::string(name(run.inner)); },
     [](Case& run, const std::string& text) { run.inner = parse_inner(text); }},
    {"momentum", [](const Case& run) { return std::string(name(run.momentum)); },
     [](Case& run, const std::string& text) { run.momentum = parse_momentum(text); }},
    {"bias", [](const Case& run) { return std::string(name(run.bias)); },
     [](Case& run, const std::string& text) { run.bias = problem::parse<BiasCorrection>(text); }},
    {"data", [](const Case& run) { return problem::name(run.data); },
     [](Case& run, const std::string& text) { run.data = problem::parse_data_class(text); }},
}};

struct Number {
    std::string_view key;
    Index Case::*member;
    Index least;
    Index most;
    bool always; ///< told even where it is the default
};
constexpr std::array<Number, 11> numbers{{
    {"workers", &Case::workers, 1, problem::most_workers, true},
    {"size", &Case::size, 0, 100'000'000, true},
    {"rounds", &Case::rounds, 1, 1'000'000, true},
    {"steps", &Case::steps, 0, 1'000'000, false},
    {"uneven", &Case::uneven, 0, 1, false},
    {"skip", &Case::skip, 0, 1'000'000, false},
    {"restart", &Case::restart, 0, 1'000'000, false},
    {"to", &Case::to, 0, problem::most_workers, false},
    {"late", &Case::late, 0, 1'000'000, false},
    {"threads", &Case::threads, 1, 64, false},
    {"seed", &Case::seed, 0, 1'000'000, false},
}};

constexpr std::array<std::pair<std::string_view, double Case::*>, 8> reals{{{"alpha", &Case::alpha},
                                                                            {"gamma", &Case::gamma},
                                                                            {"eta", &Case::eta},
                                                                            {"lr", &Case::lr},
                                                                            {"decay", &Case::decay},
                                                                            {"beta1", &Case::beta1},
                                                                            {"beta2", &Case::beta2},
                                                                            {"epsilon", &Case::epsilon}}};

template <class Value>
Value parsed(const std::string& key, const std::string& text) {
    const auto value = parse_number<Value>(text);
    if (!value)
        throw Error("case: " + key + " is '" + text + "'; it must be a number");
    return *value;
}

void read(Case& run, const std::string& key, const std::string& value) {
    for (const Word& word : kind_words)
        if (word.key == key) {
            word.set(run, value);
            return;
        }
    for (const Number& number : numbers)
        if (number.key == key) {
            run.*number.member = parsed<Index>(key, value);
            if (run.*number.member < number.least || run.*number.member > number.most)
                throw Error("case: " + key + " is " + value + "; it must be from " +
                            std::to_string(number.least) + " to " + std::to_string(number.most));
            return;
        }
    for (const auto& [known, member] : reals)
        if (known == key) {
            run.*member = parsed<double>(key, value);
            return;
        }
    throw Error("case: '" + key + "' is no key of KEY=VALUE");
}

rc::Gen<Index> from_to(Index first, Index last) {
    return rc::gen::resize(rc::kNominalSize, rc::gen::inRange<Index>(first, last + 1));
}

/// One of them, by its place; shrinks towards the first.
template <class Value>
rc::Gen<Value> one_of(std::vector<Value> values) {
    return rc::gen::map(from_to(0, static_cast<Index>(values.size()) - 1),
                        [values](Index place) { return values[static_cast<std::size_t>(place)]; });
}

/// What goes together, so that every case that is drawn is one.
Case fitting(Case run) {
    if (run.law == Law::hypercube)
        run.workers = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(run.workers)));
    run.skip = std::min(run.skip, run.rounds);
    run.restart = std::min(run.restart, run.rounds - 1);
    if (run.restart == 0)
        run.to = 0;
    if (run.law == Law::hypercube && run.to > 0)
        run.to = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(run.to)));
    return run;
}

} // namespace

std::string text(const Case& run) {
    const Case usual;
    std::string result;
    const auto add = [&result](std::string_view key, const std::string& value) {
        result += (result.empty() ? "" : ",") + std::string(key) + "=" + value;
    };
    for (const Word& word : kind_words)
        if (word.key == "law" || word.get(run) != word.get(usual))
            add(word.key, word.get(run));
    for (const Number& number : numbers)
        if (number.always || run.*number.member != usual.*number.member)
            add(number.key, std::to_string(run.*number.member));
    for (const auto& [key, member] : reals)
        if (run.*member != usual.*member)
            add(key, shortest(run.*member));
    return result;
}

Case parse_case(const std::string& text) {
    Case run;
    bool ours = false;
    std::istringstream parts(text);
    for (std::string part; std::getline(parts, part, ',');) {
        const std::size_t equals = part.find('=');
        const std::string key = part.substr(0, equals);
        read(run, key, equals == std::string::npos ? "" : part.substr(equals + 1));
        ours = ours || key == "law";
    }
    if (!ours)
        throw Error("case: '" + text + "' has no law=NAME");
    // Of a worker theta, x, a gradient and what it sends.
    problem::check_memory(16.0 * static_cast<double>(run.size) * static_cast<double>(run.workers),
                          "such a case");
    check_law(run.law, static_cast<int>(run.workers));
    if (run.to > 0)
        check_law(run.law, static_cast<int>(run.to));
    return run;
}

rc::Gen<Case> any_case() {
    const auto laws = one_of<Law>({Law::pairs, Law::ring, Law::two_peers, Law::complete, Law::given,
                                   Law::exponential, Law::hypercube, Law::none});
    const auto data = one_of<DataClass>({DataClass::dyadic, DataClass::normal, DataClass::normal,
                                         DataClass::ties, DataClass::sparse, DataClass::wide,
                                         DataClass::subnormal, DataClass::zeros, DataClass::limit});
    // Also none, and one in ten beyond the blocks of kernels.
    const auto sizes = rc::gen::map(from_to(1, 45), [](Index drawn) {
        return drawn <= 40 ? drawn : drawn == 41 ? 0 : 200 * (drawn - 41) + 13;
    });
    // Now and then.
    const auto rarely = [](Index last) {
        return rc::gen::map(from_to(0, 4 * last),
                            [last](Index drawn) { return drawn > last ? Index{0} : drawn; });
    };
    return rc::gen::map(
        rc::gen::build<Case>(
            rc::gen::set(&Case::law, laws),
            rc::gen::set(&Case::inner, one_of<Inner>({Inner::sgd, Inner::adamw, Inner::adams})),
            rc::gen::set(&Case::momentum, one_of<Momentum>({Momentum::local, Momentum::gossiped})),
            rc::gen::set(&Case::bias, one_of<BiasCorrection>({BiasCorrection::adam, BiasCorrection::none,
                                                              BiasCorrection::momentum})),
            rc::gen::set(&Case::data, data), rc::gen::set(&Case::workers, from_to(1, 9)),
            rc::gen::set(&Case::size, sizes), rc::gen::set(&Case::rounds, from_to(1, 5)),
            rc::gen::set(&Case::steps, from_to(0, 4)), rc::gen::set(&Case::uneven, from_to(0, 1)),
            rc::gen::set(&Case::skip, rarely(4)), rc::gen::set(&Case::restart, rarely(4)),
            rc::gen::set(&Case::to, from_to(0, 5)), rc::gen::set(&Case::late, rarely(9)),
            rc::gen::set(&Case::threads, one_of<Index>({1, 1, 2, 3})),
            rc::gen::set(&Case::seed, from_to(1, 9)),
            rc::gen::set(&Case::alpha, one_of<double>({1.0, 0.5, 0.75, 0.3, 1.25, 0.0})),
            rc::gen::set(&Case::gamma, one_of<double>({0.0, 0.5, 0.25, 0.7, 0.9})),
            rc::gen::set(&Case::eta, one_of<double>({1.0, 0.5, 0.7, 2.0})),
            rc::gen::set(&Case::lr, one_of<double>({0.125, 0.1, 0.5, 0x1p-10})),
            rc::gen::set(&Case::decay, one_of<double>({0.0, 0.0, 0.25, 0.1})),
            rc::gen::set(&Case::beta1, one_of<double>({0.5, 0.9, 0.0, 0.999})),
            rc::gen::set(&Case::beta2, one_of<double>({0.75, 0.95, 0.0, 0.999})),
            rc::gen::set(&Case::epsilon, one_of<double>({0x1p-20, 1e-8, 0x1p-149, 1.0}))),
        fitting);
}

Case exact(Case run) {
    run.inner = Inner::sgd;
    run.data = DataClass::dyadic;
    run.decay = 0.0;
    run.lr = 0.125;
    run.rounds = std::min<Index>(run.rounds, 3);
    run.steps = std::min<Index>(run.steps, 2);
    const auto dyadic = [](double value, double otherwise) {
        return value * 4.0 == static_cast<double>(static_cast<Index>(value * 4.0)) ? value : otherwise;
    };
    run.alpha = dyadic(run.alpha, 0.5);
    run.gamma = dyadic(run.gamma, 0.5);
    run.eta = dyadic(run.eta, 0.5);
    if (run.law == Law::complete) // lambda = 2/n
        run.workers = static_cast<Index>(std::bit_floor(static_cast<std::uint64_t>(run.workers)));
    run.restart = 0;
    return fitting(run);
}

Index most_workers(const Case& run) {
    return std::max(run.workers, run.to);
}

} // namespace truestep::gasloc
