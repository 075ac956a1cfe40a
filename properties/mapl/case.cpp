// Declares the settings of MAPL's cases, and the rows of the gate's table over them.
#include "case.hpp"

#include <algorithm>
#include <array>

namespace truestep::properties::mapl {

namespace {

using gate::from_to;
using gate::number;
using gate::word;

/// Adjusts the settings of quantization to the rank and the number of codewords.
void fit_quantization(Case& run) {
    const bool any = run.codewords > 0;
    run.groups = any && run.rank % run.groups == 0 ? run.groups : 1;
    run.rounds = any ? run.rounds : 1;
    run.subsets = any && run.subsets > 0 && run.codewords % run.subsets == 0 ? run.subsets : 1;
}

void fit(Case& run) {
    run.restart = run.restart >= run.steps ? 0 : run.restart;
    fit_quantization(run);
    if (run.replicas > 1 && run.trainer == Trainer::none)
        run.trainer = Trainer::adams;
    if (run.data == DataClass::limit && run.trainer != Trainer::none)
        run.data = DataClass::wide; // sums of gradients at the limit are beyond it
}

/// None, or numbers for which an index takes 0 to 5 bits.
Index codewords_of(Index drawn) {
    constexpr std::array<Index, 10> all{0, 0, 0, 0, 2, 3, 6, 8, 1, 20};
    return all[static_cast<std::size_t>(drawn)];
}

/// Small ones, and those from which an id takes another byte.
Index vocabulary_of(Index drawn) {
    constexpr std::array<Index, 12> all{1, 2, 3, 3, 4, 5, 256, 257, 1000, 65536, 65537, 1 << 17};
    return all[static_cast<std::size_t>(drawn)];
}

std::vector<gate::Setting<Case>> settings() {
    constexpr Index most = 1'000'000;
    std::vector<gate::Setting<Case>> all{
        number("rank", &Case::rank, 1, 4096)
            .draws(from_to<Index>(1, 4), &Case::rank)
            .asked("ranks of the subspace", {"compressed"})
            .in_rows({"1", "2", "4"}),
        number("width", &Case::width, 1, 4096)
            .draws(from_to<Index>(0, 5), [](Case& run, Index wider) { run.width = run.rank + wider; })
            .asked("numbers of features, at least the rank", {"compressed"})
            .in_rows({"4", "7"}),
        number("workers", &Case::workers, 2, 1000)
            .draws(from_to<Index>(2, 4), &Case::workers)
            .asked("numbers of stages, from 2 on", {"several boundaries", "several replicas"})
            .in_rows({"2", "3", "4"}),
        // Mostly one, up to three.
        number("replicas", &Case::replicas, 1, 1000)
            .draws(from_to<Index>(0, 5),
                   [](Case& run, Index drawn) { run.replicas = std::max<Index>(1, drawn - 2); })
            .asked("copies of the pipeline side by side", {"several replicas"})
            .in_rows({"1", "2"}),
        number("tokens", &Case::tokens, 0, most)
            .draws(from_to<Index>(1, 5), &Case::tokens)
            .asked("tokens of a micro-batch")
            .in_rows({"3", "33"}),
        number("uneven", &Case::uneven, 0, 1),
        number("vocabulary", &Case::vocabulary, 1, greatest_vocabulary)
            .draws(rc::gen::map(from_to<Index>(0, 11), vocabulary_of), &Case::vocabulary)
            .asked("numbers of ids; any without it"),
        number("micro", &Case::micro, 0, 1000)
            .draws(from_to<Index>(1, 4), &Case::micro)
            .asked("micro-batches of a step; any without it", {"several micro-batches"})
            .never_asked("0"),
        number("steps", &Case::steps, 1, most).draws(from_to<Index>(1, 3), &Case::steps),
        number("restart", &Case::restart, 0, most).draws(from_to<Index>(0, 2), &Case::restart),
        number("seed", &Case::seed, 0, most).draws(from_to<Index>(0, 99), &Case::seed),
        number("codewords", &Case::codewords, 0, most_codewords)
            .draws(rc::gen::map(from_to<Index>(0, 9), codewords_of), &Case::codewords)
            .asked("of a codebook for Z, 0 is none", {"codewords", "streamed", "several rounds"})
            .in_rows({"0", "6"}),
        number("groups", &Case::groups, 1, 4096)
            .draws(from_to<Index>(0, 1),
                   [](Case& run, Index drawn) {
                       run.groups = drawn == 0 ? 1 : run.rank % 2 == 0 ? 2 : run.rank;
                   })
            .asked("of vector quantization, where they divide the rank, else 1; any without it"),
        number("rounds", &Case::rounds, 1, 16)
            .draws(from_to<Index>(1, 3), &Case::rounds)
            .asked("of vector quantization; any without it", {"several rounds"}),
        number("subsets", &Case::subsets, 1, most_codewords)
            .draws(from_to<Index>(0, 2),
                   [](Case& run, Index drawn) {
                       run.subsets = drawn == 0                             ? 1
                                     : drawn == 2 && run.codewords % 2 == 0 ? 2
                                                                            : run.codewords;
                   })
            .asked("of codewords that travel by turns, where they divide them, else 1; any without it",
                   {"streamed"}),
        word("anchors", &Case::anchors, parse_anchors)
            .draws(from_to<Index>(0, 3),
                   [](Case& run, Index drawn) { run.anchors = static_cast<Anchors>(drawn); })
            .asked("rows of tables that ids choose", {"anchors"})
            .in_rows({"none", "fixed", "shared", "two"}),
        word("order", &Case::order, parse_order)
            .draws(from_to<Index>(0, 3),
                   [](Case& run, Index drawn) {
                       run.order = static_cast<Order>(drawn % 2);
                       run.schedule = drawn < 2 ? Schedule::gpipe : Schedule::one_forward_one;
                   })
            .asked("of SPEL")
            .in_rows({"project_first", "momentum_first"}),
        word("schedule", &Case::schedule, std::vector<std::string>{"gpipe", "1f1b"})
            .asked("of the pipeline: gpipe,1f1b"),
        word("data", &Case::data, problem::parse_data_class)
            // In wide and limit one value alone makes A, so roundings decide the rest of it.
            .draws(gate::one_of<DataClass>({DataClass::dyadic, DataClass::normal, DataClass::dyadic,
                                            DataClass::normal, DataClass::ties, DataClass::sparse,
                                            DataClass::subnormal, DataClass::zeros}),
                   &Case::data),
        word("payload", &Case::payload, parse_payload)
            .draws(from_to<Index>(0, 2),
                   [](Case& run, Index drawn) { run.payload = drawn < 2 ? Payload::fp32 : Payload::bf16; })
            .asked("of Z and dZ", {"payload of 16 bits"})
            .in_rows({"fp32", "bf16"}),
        // Weighted: none, two of AdamS, two of SCAPE, none.
        word("trainer", &Case::trainer, std::vector<std::string>{"none", "adams", "scape"})
            .draws(from_to<Index>(0, 5),
                   [](Case& run, Index drawn) { run.trainer = static_cast<Trainer>((drawn + 1) / 2 % 3); })
            .asked("of stages, over their replicas", {"trained by SCAPE"})
            .in_rows({"none", "adams", "scape"})};
    for (gate::Setting<Case>& one : all)
        one.always_written = one.key != "uneven";
    return all;
}

/// Whether these values make a row together.
bool is_row(const gate::Overrides& row, const gate::Overrides& asked) {
    const auto is = [&](const char* setting, const char* value) {
        return row.at(setting).front() == value;
    };
    // Payloads do not depend on SPEL, so unless asked for, bf16 and codewords come with one of the orders,
    // and not both at once.
    const bool travels = asked.contains("payload") || asked.contains("codewords");
    const bool as_it_is = is("payload", "fp32") && is("codewords", "0");
    const bool both = !is("payload", "fp32") && !is("codewords", "0");
    if (!travels && (both || !(as_it_is || is("order", "project_first") || asked.contains("order"))))
        return false;
    // More tokens change sums, but nothing about stages, orders or ranks, so they come with one value of
    // each.
    if (!is("tokens", "3") && !asked.contains("tokens"))
        for (const auto& [setting, value] :
             {std::pair("workers", "2"), std::pair("rank", "2"), std::pair("order", "project_first"),
              std::pair("replicas", "1")})
            if (!is(setting, value) && !asked.contains(setting))
                return false;
    // Replicas matter to A and the anchors only, so they come with one value of each other setting. Several
    // have a trainer.
    if (is("replicas", "1"))
        return is("trainer", "none") || asked.contains("trainer");
    if (is("trainer", "none") || (is("workers", "4") && !asked.contains("workers")))
        return false;
    for (const auto& [setting, value] :
         {std::pair("rank", "2"), std::pair("width", "7"), std::pair("tokens", "3"),
          std::pair("order", "project_first"), std::pair("payload", "fp32"), std::pair("codewords", "0")})
        if (!is(setting, value) && !asked.contains(setting))
            return false;
    return true;
}

/// The values of a setting; only the first if the implementation lacks the feature.
std::vector<std::string> values_for(const gate::Implementation& implementation, const std::string& key,
                                    std::vector<std::string> values) {
    const std::string feature = key == "replicas" ? "trainer" : key;
    if (implementation.unsupported().contains(feature))
        std::erase_if(values,
                      [&](const std::string& value) { return value != spec().setting(key).usual.front(); });
    return values;
}

void without_codewords(Case& run) {
    run.codewords = 0;
    run.groups = run.rounds = run.subsets = 1;
}

} // namespace

const gate::CaseSpec<Case>& spec() {
    static const gate::CaseSpec<Case> all{
        .settings = settings(),
        .own_key = "rank",
        .draws = {{"rank", "width", "workers", "tokens", "vocabulary", "micro"},
                  {"steps", "restart", "seed", "anchors", "order", "data", "payload"},
                  {"codewords", "groups", "rounds", "subsets"},
                  {"replicas", "trainer"}},
        .fits_drawn =
            [](Case& run) {
                if (run.anchors != Anchors::none && run.vocabulary > 1000)
                    run.vocabulary = 257; // larger tables take too long
                // Rarely together with a payload of bf16: rounding Z needs its own cases.
                if (run.payload != Payload::fp32 && run.rounds != 3)
                    run.codewords = 0;
                fit(run);
            },
        .fits =
            [](Case& run, const std::set<std::string>& said) {
                if (!said.contains("width"))
                    run.width = run.rank;
                if (run.rank > run.width)
                    throw Error("case: rank is " + std::to_string(run.rank) +
                                "; it must be at most the width, which is " + std::to_string(run.width));
                if (run.anchors != Anchors::none && run.vocabulary > most_anchored)
                    throw Error("case: vocabulary is " + std::to_string(run.vocabulary) +
                                "; with anchors it must be at most " + std::to_string(most_anchored));
                fit(run);
            },
        .features = {{"trainer",
                      [](Case& run) {
                          run.replicas = 1;
                          run.trainer = Trainer::none;
                      },
                      {"several replicas", "trained by SCAPE"}},
                     {"payload", [](Case& run) { run.payload = Payload::fp32; }, {"payload of 16 bits"}},
                     {"codewords", without_codewords, {"codewords", "streamed", "several rounds"}}},
        .columns = {"workers", "rank", "width", "tokens", "anchors", "order", "payload", "codewords",
                    "replicas", "trainer"},
        .most_workers = [](const Case& run) { return run.ranks(); },
        .values_for = values_for,
        .is_row = is_row,
        .fits_pins =
            [](Case& run, const Case&, const gate::Overrides& overrides) {
                // Changes what the user did not give.
                if (run.rank > run.width)
                    (overrides.contains("width") ? run.rank : run.width) =
                        overrides.contains("width") ? run.width : run.rank;
                if (run.vocabulary > most_anchored && !overrides.contains("anchors"))
                    run.anchors = Anchors::none;
            }};
    return all;
}

Index tokens_of(const Case& run, Index step, Index micro) {
    return run.uneven == 0 ? run.tokens : (run.seed + step + 2 * micro) % (run.tokens + 1);
}

Settings settings_of(const Case& run) {
    Settings settings;
    settings.width = run.width;
    settings.rank = run.rank;
    settings.vocabulary = run.vocabulary;
    settings.anchors = run.anchors;
    settings.order = run.order;
    settings.beta = run.dyadic() || run.data == DataClass::once ? 0.5 : run.seed % 4 == 1 ? 0.999 : 0.9;
    if (run.seed % 4 == 2) // both sides of the eight polynomials that there are
        settings.direction_iterations = static_cast<int>(1 + run.seed / 4 % 12);
    if (run.seed % 8 == 3)
        settings.retraction_iterations = static_cast<int>(1 + run.seed / 8 % 4);
    settings.seed = static_cast<std::uint64_t>(run.seed);
    settings.payload = run.payload;
    settings.quantization = {run.codewords, run.groups, run.rounds, run.subsets,
                             run.codewords == 0 || !run.dyadic() ? 0.9 : 0.5};
    return settings;
}

} // namespace truestep::properties::mapl
