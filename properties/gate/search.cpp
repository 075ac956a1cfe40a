// Draws cases of a property until one fails, shrinks it, and counts the kinds that were drawn.
#include <truestep/gate/search.hpp>

#include <chrono>
#include <cmath>
#include <exception>
#include <sstream>
#include <string_view>
#include <utility>

#include <truestep/problem/error.hpp>
#include <truestep/problem/text.hpp>

#include "interruption.hpp"

namespace truestep::gate {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The seed of a property, so that each draws its own cases.
std::uint64_t seed_of(std::uint64_t seed, const std::string& name) {
    std::uint64_t value = 0xcbf2'9ce4'8422'2325U ^ seed;
    for (const char letter : name)
        value = (value ^ static_cast<unsigned char>(letter)) * 0x0000'0100'0000'01b3U;
    return value;
}

/// A case in whose middle a program was ended is not counted as failed.
void forget_what_was_ended(SearchResult& result) {
    if (!result.counterexample || !patience_is_over())
        return;
    result.counterexample.reset();
    --result.cases;
    result.ended = true;
}

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts;
    std::istringstream all(text);
    for (std::string part; std::getline(all, part, separator);)
        parts.push_back(part);
    return parts;
}

/// The numbers that a halving search tries in place of `number`: 0, then ever closer to it.
std::vector<std::uint64_t> smaller_numbers(std::uint64_t number) {
    std::vector<std::uint64_t> all;
    for (std::uint64_t less = number; less > 0; less /= 2)
        all.push_back(number - less);
    return all;
}

/// The values of a setting that are smaller by a part ("a:3+b:1" without "a:3"), or in a whole number.
std::vector<std::string> smaller_values(const std::string& value) {
    std::vector<std::string> all;
    for (const char separator : {'+', '/'}) {
        std::vector<std::string> parts = split(value, separator);
        for (std::size_t left_out = 0; parts.size() > 1 && left_out < parts.size(); ++left_out) {
            std::string rest;
            for (std::size_t i = 0; i < parts.size(); ++i)
                if (i != left_out)
                    rest += (rest.empty() ? "" : std::string(1, separator)) + parts[i];
            all.push_back(rest);
        }
    }
    const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
    for (std::size_t begin = 0, end = 0; begin < value.size(); begin = end + 1) {
        end = begin;
        while (end < value.size() && is_digit(value[end]))
            ++end;
        const auto beside = [&](std::size_t at) {
            return at < value.size() && std::string_view(".-ep").find(value[at]) != std::string_view::npos;
        };
        const auto number = parse_number<std::uint64_t>(value.substr(begin, end - begin));
        if (number && !beside(begin - 1) && !beside(end)) // and not a part of a fraction
            for (const std::uint64_t smaller : smaller_numbers(*number))
                all.push_back(value.substr(0, begin) + std::to_string(smaller) + value.substr(end));
    }
    return all;
}

/// The cases that are one step smaller than a line that was not drawn: without a setting, or with a smaller
/// value of one.
std::vector<Line> smaller_lines(const System& system, const Line& line) {
    std::vector<Line> all;
    const std::vector<std::string> settings = split(line, ',');
    const auto add = [&](std::size_t place, const std::string& replaced) {
        Line smaller;
        for (std::size_t i = 0; i < settings.size(); ++i)
            if (const std::string& one = i == place ? replaced : settings[i]; !one.empty())
                smaller += (smaller.empty() ? "" : ",") + one;
        try {
            all.push_back(system.parsed(smaller));
        } catch (const Error&) { // not a case
        }
    };
    for (std::size_t place = 0; place < settings.size(); ++place)
        if (settings[place].find('=') != std::string::npos)
            add(place, "");
    for (std::size_t place = 0; place < settings.size(); ++place) {
        const std::size_t value = settings[place].find('=') + 1;
        for (const std::string& smaller : smaller_values(settings[place].substr(value)))
            add(place, settings[place].substr(0, value) + smaller);
    }
    return all;
}

} // namespace

std::shared_ptr<const Finding> unjudged(const std::string& message) {
    return std::make_shared<PhrasedFinding>(message, "", Finding::Size{});
}

CaseJudgement judged(const Implementation& implementation, const Property& property, const Line& line) {
    try {
        return property.judge(implementation, line);
    } catch (const std::exception& error) {
        // One rank only may have failed: the others must not go on without it.
        return {
            .finding = unjudged(std::string(could_not_judge) + error.what()), .kinds = {}, .counts = {}};
    }
}

std::optional<Counterexample> try_case(const Implementation& implementation, const Property& property,
                                       const Line& line, const SearchOptions& options,
                                       SearchResult& result) {
    const Schedules& schedules = options.schedules;
    for (int number = 0; number < (schedules.use ? schedules.count : 1); ++number) {
        const std::uint64_t schedule = schedules.first + static_cast<std::uint64_t>(number);
        if (schedules.use)
            schedules.use(schedule);
        CaseJudgement judged = options.judge(implementation, property, line);
        // A rank's failure has to reach all ranks, or they part ways.
        if (implementation.any(judged.finding != nullptr) && !judged.finding)
            judged.finding = unjudged("another rank saw it fail");
        if (number == 0)
            for (const std::string& kind : judged.kinds)
                ++result.kinds[kind];
        result.counts.add(judged.counts);
        if (judged.finding)
            return Counterexample{
                .line = line, .finding = judged.finding, .schedule = schedules.use ? schedule : 0};
    }
    return std::nullopt;
}

SearchResult search(const System& system, const Implementation& implementation, const Property& property,
                    const SearchOptions& options) {
    const auto begin = Clock::now();
    SearchResult result;
    const auto generator = property.cases(options.overrides, options.unsupported);
    rc::Random random(seed_of(options.seed, property.name));
    std::optional<rc::Shrinkable<Line>> failing;
    while (result.cases < options.cases && !failing && !result.ended) {
        const rc::Shrinkable<Line> drawn = generator(random.split(), rc::kNominalSize);
        const Line line = drawn.value();
        if (!options.before(line)) {
            result.ended = true;
            break;
        }
        ++result.cases;
        ++result.drawn;
        result.counterexample = try_case(implementation, property, line, options, result);
        forget_what_was_ended(result);
        if (result.counterexample)
            failing = drawn;
    }

    SearchResult of_others; // separate, since their kinds do not count as drawn
    for (const Line& other : options.also) {
        if (failing || result.counterexample || result.ended)
            break;
        const Line line = property.needed(other, options.unsupported);
        if (!options.before(line)) {
            result.ended = true;
            break;
        }
        ++result.cases;
        result.counterexample = try_case(implementation, property, line, options, of_others);
        forget_what_was_ended(result);
        if (result.counterexample)
            failing = rc::shrinkable::shrinkRecur(line, [&](const Line& larger) {
                return rc::seq::map(
                    rc::seq::fromContainer(smaller_lines(system, larger)),
                    [&](const Line& one) { return property.needed(one, options.unsupported); });
            });
    }
    result.counts.add(of_others.counts);

    if (result.counterexample)
        options.failed();
    // Shrinks: continues from the first smaller case that also fails, until none does.
    SearchResult of_shrinking;
    int evaluations = 0;
    const auto begin_of_shrinking = Clock::now();
    for (bool smaller = failing.has_value(); smaller && !result.ended;) {
        smaller = false;
        auto candidates = failing->shrinks();
        while (auto candidate = candidates.next()) {
            const Line line = candidate->value();
            if (line == result.counterexample->line)
                continue;
            if (evaluations >= options.most_evaluations ||
                implementation.any(seconds_since(begin_of_shrinking) > options.most_seconds) ||
                !options.before(line)) {
                smaller = false;
                break;
            }
            ++evaluations;
            if (auto found = try_case(implementation, property, line, options, of_shrinking);
                found && !patience_is_over()) {
                result.counterexample = std::move(found);
                failing = *candidate;
                smaller = true;
                break;
            }
        }
    }
    if (result.counterexample)
        result.counterexample->evaluations = evaluations;
    result.seconds = seconds_since(begin);
    return result;
}

namespace {

/// The probability that at most so many of the cases are of a kind that each is with probability `share`.
double chance_of_at_most(int count, int cases, double share) {
    double sum = 0.0;
    for (int i = 0; i <= count; ++i)
        sum += std::exp(std::lgamma(cases + 1.0) - std::lgamma(i + 1.0) - std::lgamma(cases - i + 1.0) +
                        i * std::log(share) + (cases - i) * std::log1p(-share));
    return sum;
}

/// Whether a kind is rarer than demanded, and too rare for chance. A kind that is drawn only as often as
/// demanded would be this rare in less than one of a hundred runs, and kinds are drawn more often than
/// that.
bool improbably_few(int count, int cases, int percent) {
    constexpr double whim = 0.01;
    return count * 100 < percent * cases &&
           (percent >= 100 || chance_of_at_most(count, cases, percent / 100.0) < whim);
}

} // namespace

std::string too_few(const System& system, const Property& property, const SearchResult& result,
                    const SearchOptions& options) {
    constexpr int enough_to_judge = 50;
    if (result.drawn < enough_to_judge)
        return {};
    const auto several = result.kinds.find("several ranks");
    if (options.workers_by_default && property.at_least.contains("several ranks") &&
        several == result.kinds.end())
        return "all cases had one rank; start more with mpirun -n";
    for (const auto& [kind, percent] : property.at_least) {
        if (system.decided(kind, options.overrides, options.unsupported))
            continue;
        const auto found = result.kinds.find(kind);
        const int count = found == result.kinds.end() ? 0 : found->second;
        if (improbably_few(count, result.drawn, percent))
            return "only " + std::to_string(count) + " of " + std::to_string(result.drawn) +
                   " cases had '" + kind + "'; at least " + std::to_string(percent) +
                   " of a hundred are needed";
    }
    return {};
}

std::string failure_text(const Counterexample& found) {
    return "  " + found.finding->message() + "\n" + found.finding->details() +
           "  smallest case: " + found.line + "\n";
}

nlohmann::ordered_json failure_json(const Counterexample& found, const std::string& trace) {
    return {{"message", found.finding->message()},
            {"case", found.line},
            {"trace", trace},
            {"first", found.finding->first()},
            {"drawing", found.finding->drawn()}};
}

} // namespace truestep::gate
