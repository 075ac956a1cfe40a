#include <scape/properties/search.hpp>

#include <chrono>
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

/// One of the pinned values, chosen by what was drawn, so that it still shrinks.
template <class Value, class Drawn>
void pin(const std::vector<Value>& pins, Drawn& drawn) {
    if (!pins.empty())
        drawn = pins[static_cast<std::size_t>(drawn) % pins.size()];
}

Case pinned(Case run, const Pins& pins) {
    pin(pins.workers, run.workers);
    pin(pins.workers, run.other_workers);
    for (Operation& operation : run.script)
        pin(pins.workers, operation.workers);
    if (!pins.densities.empty()) {
        const auto number = static_cast<std::size_t>(1.0 / run.density);
        run.density = pins.densities[number % pins.densities.size()];
    }
    pin(pins.partitions, run.partition);
    pin(pins.corrections, run.bias_correction);
    pin(pins.data, run.data);
    if (pins.steps)
        run.steps = *pins.steps;
    if (pins.tensors)
        run.tensors = *pins.tensors;
    if (pins.clip_norm)
        run.clip_norm = *pins.clip_norm;
    return run;
}

} // namespace

bool Pins::any() const {
    return !workers.empty() || !densities.empty() || !partitions.empty() || !corrections.empty() ||
           !data.empty() || steps || tensors || clip_norm;
}

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
    if (options.pins.any() || result.cases < enough_to_judge)
        return {};
    for (const auto& [kind, percent] : property.at_least) {
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
