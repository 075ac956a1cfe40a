#include <scape/properties/search.hpp>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <utility>

namespace scape::properties {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Every property draws its own cases.
std::uint64_t seed_of(std::uint64_t seed, const std::string& name) {
    std::uint64_t value = 0xcbf2'9ce4'8422'2325U ^ seed;
    for (const char letter : name)
        value = (value ^ static_cast<unsigned char>(letter)) * 0x0000'0100'0000'01b3U;
    return value;
}

/// One of the pinned values, by what was drawn: any of them may come, and shrinking leads to the first.
template <class Value>
void pin(const std::vector<Value>& pins, Index number, Value& drawn) {
    if (!pins.empty())
        drawn = pins[static_cast<std::size_t>(number) % pins.size()];
}

Case pinned(Case run, const Pins& pins) {
    const Index place = run.chosen_place;
    pin(pins.workers, place / 3, run.workers);
    pin(pins.workers, place / 11, run.other_workers);
    Index number = place / 5;
    for (Operation& operation : run.script)
        if (operation.kind == Operation::Kind::restart)
            pin(pins.workers, number++, operation.workers);
    pin(pins.densities, place / 7, run.density);
    pin(pins.partitions, place / 13, run.partition);
    pin(pins.corrections, place / 17, run.bias_correction);
    pin(pins.data, place / 19, run.data);
    if (pins.steps)
        run.steps = *pins.steps;
    if (pins.tensors)
        run.tensors = *pins.tensors;
    if (pins.clip_norm)
        run.clip_norm = *pins.clip_norm;
    return run;
}

/// Kinds of cases that a pin decides, so that too few of them are no fault of the property.
bool decided(const std::string& kind, const Pins& pins) {
    const auto is_one_of = [&kind](std::initializer_list<const char*> kinds) {
        return std::any_of(kinds.begin(), kinds.end(), [&](const char* other) { return kind == other; });
    };
    return (!pins.workers.empty() &&
            is_one_of({"several ranks", "no power of two", "fewer", "more", "another order",
                       "a restart with other ranks", "more parameters than ranks"})) ||
           (!pins.densities.empty() &&
            is_one_of({"density below 1", "something off the mask", "the mask changes", "late coordinates",
                       "residuals that are not zero"})) ||
           (pins.steps && is_one_of({"several steps", "not in the first step", "late coordinates",
                                     "residuals that are not zero", "the mask changes"})) ||
           (!pins.data.empty() && is_one_of({"equal scores", "clipped", "the mask changes"})) ||
           (pins.clip_norm && is_one_of({"clipped"})) ||
           (pins.tensors && is_one_of({"an always-dense tensor", "more parameters than ranks",
                                       "density below 1", "something off the mask", "the mask changes",
                                       "late coordinates", "residuals that are not zero"}));
}

} // namespace

std::optional<Counterexample> try_case(const Implementation& implementation, const Property& property,
                                       const Case& run, SearchResult& result) {
    Trial trial(implementation, run);
    std::optional<Violation> violation;
    try {
        property.holds(trial);
    } catch (const Violation& found) {
        violation = found;
    } catch (const std::exception& error) {
        // On one rank only, perhaps: the others must not go on without it.
        violation = Violation(std::string("it could not be judged: ") + error.what());
    }
    // What one rank sees, all have to hear of, or they part ways.
    if (implementation.any(violation.has_value()) && !violation)
        violation = Violation("another rank saw it fail");
    for (const std::string& kind : trial.kinds())
        ++result.kinds[kind];
    result.counts.add(trial.counts());
    if (!violation)
        return std::nullopt;
    return Counterexample{run, *violation, trial.runs(), 0};
}

SearchResult search(const Implementation& implementation, const Property& property,
                    const SearchOptions& options) {
    const auto begin = Clock::now();
    SearchResult result;
    const auto generator = rc::gen::map(property.cases(), [&](Case drawn) {
        Case run = pinned(std::move(drawn), options.pins);
        property.needs(run);
        return run;
    });
    rc::Random random(seed_of(options.seed, property.name));
    std::optional<rc::Shrinkable<Case>> failing;
    while (result.cases < options.cases && !failing) {
        const rc::Shrinkable<Case> drawn = generator(random.split(), rc::kNominalSize);
        const Case run = drawn.value();
        if (!options.before(run)) {
            result.ended = true;
            break;
        }
        ++result.cases;
        result.counterexample = try_case(implementation, property, run, result);
        if (result.counterexample)
            failing = drawn;
    }

    for (const Case& run : options.also) {
        if (failing || result.counterexample || result.ended)
            break;
        if (!options.before(run)) {
            result.ended = true;
            break;
        }
        ++result.cases;
        result.counterexample = try_case(implementation, property, run, result);
    }

    // Always to the first smaller case that fails too.
    SearchResult of_shrinking;
    int evaluations = 0;
    const auto begin_of_shrinking = Clock::now();
    for (bool smaller = failing.has_value(); smaller && !result.ended;) {
        smaller = false;
        auto candidates = failing->shrinks();
        while (auto candidate = candidates.next()) {
            const Case run = candidate->value();
            if (run == result.counterexample->run)
                continue;
            if (evaluations >= options.most_evaluations ||
                implementation.any(seconds_since(begin_of_shrinking) > options.most_seconds) ||
                !options.before(run)) {
                smaller = false;
                break;
            }
            ++evaluations;
            if (auto found = try_case(implementation, property, run, of_shrinking)) {
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

std::string too_few(const Property& property, const SearchResult& result, const SearchOptions& options) {
    constexpr int enough_to_judge = 50;
    if (result.cases < enough_to_judge)
        return {};
    const auto several = result.kinds.find("several ranks");
    if (options.pins.workers_by_default && property.at_least.contains("several ranks") &&
        several == result.kinds.end())
        return "all cases had one rank; start more with mpirun -n";
    for (const auto& [kind, percent] : property.at_least) {
        if (decided(kind, options.pins))
            continue;
        const auto found = result.kinds.find(kind);
        const int count = found == result.kinds.end() ? 0 : found->second;
        if (count * 100 < percent * result.cases)
            return "only " + std::to_string(count) + " of " + std::to_string(result.cases) +
                   " cases had '" + kind + "'; at least " + std::to_string(percent) +
                   " of a hundred are needed";
    }
    return {};
}

} // namespace scape::properties
