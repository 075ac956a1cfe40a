// Tests that all variants of all passes have the bits of section 5, over all floats, and that level REL's
// bound is one.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include "bounds.hpp"
#include "cases.hpp"
#include "planted.hpp"
#include "yardsticks.hpp"

namespace truestep::properties::scape::floats {
namespace {

constexpr const char* usage =
    "usage: all_floats [one] [several] [order] [planted] [bounds] [--all] [--seed N] [--threads N] "
    "[--draws N] [--only WORDS]\n"
    "one:     passes as functions of one variable, variant against variant and against MPFR\n"
    "several: passes over all exponents of two inputs, drawn ones of all, and special values\n"
    "order:   the comparator's distance in ULP, REL's exact numbers, bf16 of the peers, scalars of a step\n"
    "planted: known bugs, which all this must see\n"
    "bounds:  honest reformulations beside the bounds of level REL, and how tight those are\n"
    "--all:   every float in place of a sample, and 10^9 draws of bounds\n"
    "--only:  functions whose name begins so, of one and several\n";

struct Options {
    std::set<std::string> parts;
    std::string only;
    bool all = false;
    std::uint64_t seed = 1;
    std::uint64_t draws = 0;
    int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
};

Options parse(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--all") {
            options.all = true;
        } else if (word == "--only" && i + 1 < argc) {
            options.only = argv[++i];
        } else if (word == "--seed" || word == "--threads" || word == "--draws") {
            if (++i == argc)
                throw std::invalid_argument(word + " needs a number");
            const std::uint64_t value = std::stoull(argv[i]);
            if (word == "--seed")
                options.seed = value;
            else if (word == "--draws")
                options.draws = value;
            else
                options.threads = std::max(1, static_cast<int>(value));
        } else if (std::set<std::string>{"one", "several", "order", "planted", "bounds"}.contains(word)) {
            options.parts.insert(word);
        } else {
            throw std::invalid_argument("what is " + word + "?");
        }
    }
    if (options.parts.empty())
        options.parts = {"one", "several", "order", "planted", "bounds"};
    return options;
}

void say(const std::string& text) {
    static_cast<void>(std::fputs(text.c_str(), stdout));
    static_cast<void>(std::fflush(stdout));
}

std::string names(const std::vector<Form>& forms) {
    std::string result = "forms:";
    for (const Form& form : forms)
        result += " " + form.name + (form.table == forms.back().table ? "\n" : ",");
    return result;
}

bool one_variable(const Options& options) {
    bool ok = true;
    const std::vector<Form> forms = all_forms();
    say(names(forms));
    constexpr Bits quick_mantissas = 64;
    constexpr Bits deep_mantissas = 2048;
    const auto sample = sample_of_all_floats(options.all ? deep_mantissas : quick_mantissas, options.seed);
    say(head());
    for (const OneVariable& function : functions_of_one_variable()) {
        if (!function.name.starts_with(options.only))
            continue;
        Tally tally = compare(over_sample(function, sample), forms, options.threads);
        if (options.all)
            tally.add(compare(over_all_floats(function), forms, options.threads));
        say(row(function.name, tally));
        ok = ok && tally.ok() && tally.judged > 0;
    }
    return ok;
}

bool several_variables(const Options& options) {
    bool ok = true;
    const std::vector<Form> forms = all_forms();
    say(names(forms));
    say(head());
    for (const SeveralVariables& function : functions_of_several_variables(options.all, options.seed)) {
        if (!function.name.starts_with(options.only))
            continue;
        const Tally tally = compare(function.run, forms, options.threads);
        say(row(function.name, tally));
        ok = ok && tally.ok() && tally.judged > 0;
    }
    return ok;
}

/// Each known bug has to be detected twice: by the plain variant, and by the oracle alone.
bool planted(const Options& options) {
    bool ok = true;
    constexpr Bits mantissas = 64;
    const auto sample = sample_of_all_floats(mantissas, options.seed);
    say(head());
    for (const Planted& known_bug : planted_tables()) {
        const Form form{known_bug.name, &known_bug.table};
        const Run run = over_sample(known_bug.seen_by, sample);
        Run without_oracle = run;
        without_oracle.oracle_stride = 0;
        Tally tally = compare(without_oracle, {all_forms().front(), form}, options.threads);
        tally.add(compare(run, {form}, options.threads));
        say(row(known_bug.name, tally));
        const bool seen = tally.differing > 0 && tally.wrong > 0;
        if (!seen)
            say("    NOT SEEN\n");
        ok = ok && seen;
    }
    return ok;
}

bool run(const Options& options) {
    bool ok = true;
    const auto part = [&](const std::string& name, const auto& work) {
        if (!options.parts.contains(name))
            return;
        say("== " + name + "\n");
        const bool good = work();
        say("== " + name + (good ? ": passed\n" : ": FAILED\n"));
        ok = ok && good;
    };
    constexpr std::uint64_t quick_draws = 2'000'000;
    constexpr std::uint64_t all_draws = 1'000'000'000;
    const std::uint64_t draws =
        options.draws != 0 ? options.draws : (options.all ? all_draws : quick_draws);
    part("one", [&] { return one_variable(options); });
    part("several", [&] { return several_variables(options); });
    part("order", [&] { return check_yardsticks(options.all, options.threads, say); });
    part("planted", [&] { return planted(options); });
    part("bounds", [&] { return check_bounds(draws, options.seed, options.threads, say); });
    return ok;
}

} // namespace
} // namespace truestep::properties::scape::floats

int main(int argc, char** argv) {
    try {
        return truestep::properties::scape::floats::run(
                   truestep::properties::scape::floats::parse(argc, argv))
                   ? 0
                   : 1;
    } catch (const std::invalid_argument& error) {
        static_cast<void>(std::fprintf(stderr, "all_floats: %s\n%s", error.what(),
                                       truestep::properties::scape::floats::usage));
        return 2;
    } catch (const std::exception& error) {
        static_cast<void>(std::fprintf(stderr, "all_floats: %s\n", error.what()));
        return 2;
    }
}
